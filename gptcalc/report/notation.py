"""Mathematics as people write it, drawn from the syntax tree of lines: what LaTeX and MathML have in common.

A reference's indices stand below, what its name has behind a _ above: c_KV[t,l] is c with KV above and t, l below.
"""

from __future__ import annotations

import unicodedata
from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence

from gptcalc.equations.grammar import (
    Call,
    Chosen,
    Comparison,
    Membership,
    Name,
    Node,
    Number,
    Operation,
    Pieces,
    Reference,
    conditions,
    sentence,
)

#: how tightly what stands in brackets otherwise is bound
PIECES, SUM, PRODUCT, FACTOR, ATOM = range(5)


class Notation(ABC):
    """Draws trees as text of one format; a format says how its pieces look."""

    def line(self, text: str, where: str = "") -> str:
        """A line, and the condition under which it holds."""
        tree = sentence(text)
        parts = [self.node(tree.left), self.sign("+=" if tree.adds else "="), self.node(tree.right, PIECES)]
        for letter, value in tree.letters.items():
            parts += [self.gap(), self.row([self.name(letter), self.sign("="), self.node(value, PIECES)])]
        if where:
            parts += [self.gap(), self.listed(self.node(condition) for condition in conditions(where))]
        return self.row(parts)

    def node(self, node: Node, least: int = SUM) -> str:
        """A node, in brackets where it is bound less tightly than `least`."""
        found = self.bare(node)
        return self.brackets(found) if bound(node) < least else found

    def bare(self, node: Node) -> str:
        match node:
            case Number():
                return self.number(node.text)
            case Name():
                return self.name(node.name)
            case Reference():
                return self.name(node.name, [self.node(index) for index in node.indices])
            case Chosen():
                return self.row([self.name(node.name), self.brackets(self.listed(map(self.name, node.indices)))])
            case Operation():
                return self.operation(node)
            case Call():
                return self.call(node)
            case Pieces():
                pieces = [(self.node(value), self.listed(map(self.node, when))) for value, when in node.pieces]
                return self.cases(pieces, self.node(node.otherwise))
            case Comparison():
                first, *others = map(self.node, node.operands)
                rest = [part for pair in zip(map(self.sign, node.operators), others, strict=True) for part in pair]
                return self.row([first, *rest])
            case Membership():
                return self.row([self.node(node.element), self.sign("∈"), self.node(node.set)])

    def operation(self, node: Operation) -> str:
        first, *rest = node.operands
        match node.operator:
            case "minus":
                return self.row([self.sign("−"), self.node(first, FACTOR)])
            case "√":
                return self.root(self.node(first))
            case "⌊":
                return self.floor(self.node(first))
            case "/":
                return self.fraction(self.node(first), self.node(rest[0]))
            case "^":
                simple = bound(first) >= ATOM and not (isinstance(first, Reference) and "_" in first.name)
                base = self.node(first) if simple and not isinstance(first, Call) else self.brackets(self.node(first))
                return self.power(base, self.node(rest[0]))
            case "·":
                left = self.brackets(self.node(first)) if is_sum(first) else self.node(first, PRODUCT)
                right = self.node(rest[0]) if is_sum(rest[0]) else self.node(rest[0], FACTOR)
                return self.row([left, self.sign("·"), right])
        return self.row([self.node(first), self.sign(node.operator), self.node(rest[0], PRODUCT)])

    def call(self, node: Call) -> str:
        over = self.listed(map(self.name, node.over))
        if node.where:
            over = self.row([over, self.sign("|"), self.listed(map(self.node, node.where))])
        if is_sum(node):
            return self.row([self.sum(over), self.node(node.arguments[0], PRODUCT)])
        arguments = self.listed(map(self.node, node.arguments))
        if node.beside:
            arguments = self.row([arguments, self.sign(";"), self.listed(map(self.node, node.beside))])
        if node.function == "abs":
            return self.row([self.sign("|"), arguments, self.sign("|")])
        return self.row([self.function(node.function, over), self.brackets(arguments)])

    def name(self, name: str, indices: Sequence[str] = ()) -> str:
        """A symbol with its indices below and the rest of its name above; d_ff and the like, which have none, below."""
        stem, _, rest = name.partition("_")
        primes = len(stem) - len(stem.rstrip("′"))
        base = self.letter(stem.rstrip("′"))
        above = [self.words(word) for word in rest.split("_") if word] + [self.sign("′")] * primes
        if not indices and not primes:
            return self.scripts(base, self.listed(above), "")
        return self.scripts(base, self.listed(indices), self.listed(above))

    @abstractmethod
    def row(self, parts: Iterable[str]) -> str: ...

    @abstractmethod
    def listed(self, parts: Iterable[str]) -> str:
        """With commas between."""

    @abstractmethod
    def gap(self) -> str: ...

    @abstractmethod
    def number(self, text: str) -> str: ...

    @abstractmethod
    def letter(self, name: str) -> str:
        """A letter, with the mark above or below it if it has one; a longer name upright."""

    @abstractmethod
    def words(self, name: str) -> str:
        """A part of a name that stands above or below."""

    @abstractmethod
    def scripts(self, base: str, below: str, above: str) -> str: ...

    @abstractmethod
    def sign(self, sign: str) -> str: ...

    @abstractmethod
    def function(self, name: str, over: str) -> str: ...

    @abstractmethod
    def sum(self, over: str) -> str: ...

    @abstractmethod
    def brackets(self, inner: str) -> str: ...

    @abstractmethod
    def floor(self, inner: str) -> str: ...

    @abstractmethod
    def root(self, inner: str) -> str: ...

    @abstractmethod
    def fraction(self, above: str, below: str) -> str: ...

    @abstractmethod
    def power(self, base: str, exponent: str) -> str: ...

    @abstractmethod
    def cases(self, pieces: Sequence[tuple[str, str]], otherwise: str) -> str: ...


def is_sum(node: Node) -> bool:
    return isinstance(node, Call) and node.function == "Σ"


def bound(node: Node) -> int:
    """How tightly a node holds together as it is drawn; a fraction's bar does what brackets would."""
    if isinstance(node, Pieces):
        return PIECES
    if isinstance(node, Operation):
        return {"+": SUM, "−": SUM, "·": PRODUCT, "minus": PRODUCT, "/": FACTOR, "^": FACTOR}.get(node.operator, ATOM)
    return PRODUCT if is_sum(node) else ATOM


def marked(letter: str) -> tuple[str, str]:
    """A letter and the combining mark that it has, or "": ṙ is r with a dot."""
    apart = unicodedata.normalize("NFD", letter)
    return (apart[0], apart[1]) if len(apart) == 2 and unicodedata.combining(apart[1]) else (letter, "")


def mantissa(text: str) -> tuple[str, int | None]:
    """1e-06 → 1 and −6; without an exponent None."""
    digits, e, exponent = text.partition("e")
    return digits, int(exponent) if e else None
