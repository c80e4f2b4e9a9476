"""The language of lines, as a grammar: text → a small syntax tree.

Every line that `explain` shows is a sentence of this language, and every sentence can be evaluated: a test runs the
lines of small models on the witness's weights (tests/equations/evaluator.py). What can't be evaluated has no place in
a line. The counts need less than the tree (`language.parse`); this module is for those who evaluate, check or draw.

    line       = (reference | set) ("=" | "+=") sum ("," letter "=" sum)*     the end says which index a letter is
    sum        = ["−"] product (("+" | "−") product)*
    product    = factor (("·" | "/") factor)*
    factor     = "Σ_" over product | ["−"] power                              Σ reaches to the next + or −
    power      = atom ["^" power | "²" | "³"]
    atom       = number | name | reference | set | function | "√" atom | "⌊" sum "⌋" | "(" sum ")" | pieces
    reference  = name "[" sum ("," sum)* "]"                                  a value, a weight or a table of constants
    set        = name "(" letter ("," letter)* ")"                            what `top` chose
    function   = name ["_" over] "(" sum ("," sum)* [";" sum ("," sum)*] ")"
    over       = letter | "{" letter ("," letter)* ["|" conditions] "}"
    pieces     = "{" sum "if" conditions (";" sum "if" conditions)* ";" sum "otherwise" "}"
    conditions = condition ("," condition)*
    condition  = sum (("=" | "≠" | "<" | "≤" | ">" | "≥") sum)+ | sum "∈" set

What it means:
- A small letter alone is an index; it runs over what the line's scope says, from 0. Alone it stands for its number.
- A name without brackets is a constant of the architecture (d_nope), S the tokens of the context, T the new ones,
  T_P those of the prompt.
- `=` gives a value its new meaning for the lines behind it; `+=` adds to the one it has.
- A line holds where its condition (the column "where") is true. Elsewhere its value does not exist, and so does a
  reference to an index outside a range. Sums, means, softmax and the like leave out what does not exist.
- A value that has no t although it is made of tokens t, such as a state, is what the token before left; before the
  first it is 0. The lines from the first that has it to the last go token by token, in a block that is drafted slot by
  slot. A line whose right side has its own value at other tokens gives it token by token, too.
- `NAME_SECTION` on a line that reads the cache is what the last earlier sublayer of that section stored as NAME,
  `NAME_before` what the last earlier sublayer did that has one, `NAME_last` what the last pass of a loop stored.

How to write a new line: use what stands here; take letters for indices and names for values that are not yet taken (a
test says where one letter has two meanings in a model); what a document or a size says is a letter, too: a range's
symbol, or lines.number(name, value), whose words stand in report/legend (a test says where a number stands in its
place); give weights by keyword, indexed in the order inputs, outputs, heads before their channels. Then add a small
document that has it to tests/reference_cases.py: the evaluator walks all lines of all those, and compares every product
that the witness makes with the line of the same weight, the attention weights, the stream around every sublayer, the
caches and the logits. A function that is missing is entered in FUNCTIONS or OVER here, with its meaning, and in the
evaluator.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import NoReturn, TypeAlias

#: functions of numbers
FUNCTIONS = {
    "abs": "x without its sign",
    "exp": "eˣ",
    "ln": "natural logarithm",
    "cos": "cosine",
    "sin": "sine",
    "tanh": "hyperbolic tangent",
    "σ": "logistic function",
    "softplus": "smooth ramp",
    "relu": "x where positive, else 0",
    "silu": "x, gated by itself",
    "gelu": "x·Φ(x), Φ the normal distribution",
    "gelu_tanh": "gelu, approximated",
    "max": "the largest of its arguments",
    "min": "the smallest of its arguments",
    "clip": "clip(x, a, b): a below a, b above b, else x",
    "probit": "quantile of the normal distribution",
    "token": "token(t): the number of the token at position t",
    "hashed": "hashed(t, ḫ): the row that head ḫ has for the n-gram that ends at position t",
    "canvas": "canvas(ç): the token in slot ç of the block that is denoised",
    "guessed": "guessed(ç, u): the probability that the step before gave token u in slot ç",
    "image": "image(ṭ): the position of the ṭ-th token of an image",
    "frame": "frame(s, ḿ): channel ḿ of the s-th frame of sound, 0 before the first and behind the last",
    "slot": "slot(t): the token in slot t of the block that is drafted: the last one known, then masks",
    "drafted": "drafted(t): the token in slot t of the block, the likeliest one behind the first slot",
    "hidden": "hidden(t, ḷ, ḧ): channel ḧ of what the ḷ-th of the target's layers that are read makes of position t",
    "keep": "in training a random 0 or 1, else 1",
    "dropout": "dropout(x, m): x where m is 1, grown so that its mean stays; else 0",
    "element": "element(A(t), j): the j-th of a set, the best first",
    "place": "place(e, A(t)): which of a set e is, counted from 0",
}
#: functions over one or several indices
OVER = {
    "Σ": "sum",
    "mean": "arithmetic mean",
    "std": "standard deviation",
    "largest": "the largest",
    "best_two": "sum of the two largest",
    "rms": "root of the mean of squares",
    "rmsnorm": "divided by the root of the mean of squares",
    "l2norm": "divided by the root of the sum of squares",
    "layernorm": "without its mean, divided by its deviation",
    "softmax": "positive shares that sum to 1; what stands behind a semicolon takes its share, over all of its indices",
    "top": "top_s(k, x): the set of the k indices where x is largest, the first of equals",
    "listed": "listed_η(k, n): the k indices that a fixed table has for token n",
    "rotate": "rotate_{a,ϕ}(x, angle, f, first): channels ϕ and ϕ + |ϕ| of a are a pair, turned by the pair's angle "
    "and stretched by f (1); others stay. Channels count from `first` (0)",
    "rotate_adjacent": "rotate, channels 2·ϕ and 2·ϕ + 1 being a pair",
    "sinkhorn": "sinkhorn_{l,n}(x, k): divided by Σ_l + ε, then k − 1 times by Σ_n + ε and Σ_l + ε",
}

#: functions as sentences of the language: y what it gives, x what it is given, n how many it runs over (of a rotation:
#: how many pairs)
DEFINITIONS = {
    "mean": ("y[] = Σ_i x[i]/n",),
    "rms": ("y[] = √(Σ_i x[i]²/n)",),
    "std": ("m[] = Σ_i x[i]/n", "y[] = √(Σ_i (x[i] − m[])²/n)"),
    "softmax": ("y[i] = exp(x[i])/Σ_j exp(x[j])",),
    "rmsnorm": ("y[i] = x[i]/√(Σ_j x[j]²/n + ε)",),
    "l2norm": ("y[i] = x[i]/√(Σ_j x[j]² + ε)",),
    "layernorm": ("m[] = Σ_j x[j]/n", "y[i] = (x[i] − m[])/√(Σ_j (x[j] − m[])²/n + ε)"),
    "rotate": (
        (
            "y[a] = {x[a]·cos(angle[a]) − x[a + n]·sin(angle[a]) if a < n; "
            "x[a]·cos(angle[a − n]) + x[a − n]·sin(angle[a − n]) if a < 2·n; x[a] otherwise}"
        ),
    ),
    "rotate_adjacent": (
        (
            "y[a] = {x[a]·cos(angle[⌊a/2⌋]) − x[a + 1]·sin(angle[⌊a/2⌋]) if a < 2·n, a = 2·⌊a/2⌋; "
            "x[a]·cos(angle[⌊a/2⌋]) + x[a − 1]·sin(angle[⌊a/2⌋]) if a < 2·n; x[a] otherwise}"
        ),
    ),
    "σ": ("y[] = 1/(1 + exp(−x[]))",),
    "silu": ("y[] = x[]/(1 + exp(−x[]))",),
    "softplus": ("y[] = ln(1 + exp(x[]))",),
    "relu": ("y[] = max(x[], 0)",),
    "tanh": ("y[] = (exp(2·x[]) − 1)/(exp(2·x[]) + 1)",),
    "gelu_tanh": ("y[] = x[]/2·(1 + tanh(√(2/3.141592653589793)·(x[] + 0.044715·x[]³)))",),
}


@dataclass(frozen=True, slots=True)
class Number:
    text: str

    @property
    def value(self) -> float:
        return float("inf") if self.text == "∞" else float(self.text)


@dataclass(frozen=True, slots=True)
class Name:
    """An index letter as a number, or a constant."""

    name: str


@dataclass(frozen=True, slots=True)
class Reference:
    name: str
    indices: tuple[Node, ...]


@dataclass(frozen=True, slots=True)
class Chosen:
    """A set, for the indices that it depends on."""

    name: str
    indices: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Call:
    """A function, over indices where it has such, on those where the conditions hold."""

    function: str
    arguments: tuple[Node, ...]
    over: tuple[str, ...] = ()
    where: tuple[Node, ...] = ()
    beside: tuple[Node, ...] = ()  # behind the semicolon


@dataclass(frozen=True, slots=True)
class Operation:
    """+ − · / ^ with two operands; − (minus), √ and ⌊ with one."""

    operator: str
    operands: tuple[Node, ...]


@dataclass(frozen=True, slots=True)
class Pieces:
    """The first piece whose conditions hold, else `otherwise`."""

    pieces: tuple[tuple[Node, tuple[Node, ...]], ...]
    otherwise: Node


@dataclass(frozen=True, slots=True)
class Comparison:
    """a ≤ b < c: every operand against the next."""

    operands: tuple[Node, ...]
    operators: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Membership:
    element: Node
    set: Chosen


Node: TypeAlias = Number | Name | Reference | Chosen | Call | Operation | Pieces | Comparison | Membership


@dataclass(frozen=True, slots=True)
class Sentence:
    """A line: what it defines, whether it adds to what was there, the right side, and what letters are chosen as."""

    left: Reference | Chosen
    adds: bool
    right: Node
    letters: dict[str, Node]
    read: tuple[Node, ...]  # every node of the right side, and of what letters are chosen as


def children(node: Node) -> tuple[Node, ...]:
    """The nodes right below one."""
    match node:
        case Reference():
            return node.indices
        case Call():
            return (*node.arguments, *node.where, *node.beside)
        case Operation() | Comparison():
            return node.operands
        case Pieces():
            return (*(part for piece, conditions in node.pieces for part in (piece, *conditions)), node.otherwise)
        case Membership():
            return (node.element, node.set)
        case Number() | Name() | Chosen():
            return ()


def walk(node: Node) -> Iterator[Node]:
    """The node and all below it."""
    yield node
    for child in children(node):
        yield from walk(child)


LETTER = r"[^\W\d_]"
NAME = LETTER + r"[\w′̂]*"
OVER_PATTERN = "|".join(sorted(OVER, key=len, reverse=True))
#: behind a function over indices one letter and a bracket, or several: top_k alone is a name
TOKEN = re.compile(
    rf"\s*(?:(?P<over>Σ(?=_(?:\{{|{LETTER}(?![\w′̂])))|(?:{OVER_PATTERN})(?=_(?:\{{|{LETTER}\()))_|(?P<number>∞|\d+(?:\.\d+)?(?:e[+-]?\d+)?)|(?P<name>{NAME})"
    r"|(?P<sign>\+=|[=+−·/^√⌊⌋()\[\]{},;|<≤>≥≠∈²³]))"
)
COMPARISONS = ("=", "≠", "<", "≤", ">", "≥")
POWERS = {"²": "2", "³": "3"}


class GrammarError(ValueError):
    """A text that is no sentence of the language."""


@lru_cache(maxsize=8192)
def sentence(text: str) -> Sentence:
    """The tree of a line. Raises GrammarError."""
    reader = _Reader(text)
    left = reader.atom()
    if not isinstance(left, (Reference, Chosen)):
        reader.fail("a line defines a reference or a set")
    adds = reader.accept("+=")
    if not adds:
        reader.expect("=")
    right = reader.sum()
    letters = {}
    while reader.accept(","):
        letter = reader.take("name")
        reader.expect("=")
        letters[letter] = reader.sum()
    reader.end()
    read = tuple(node for top in (right, *letters.values()) for node in walk(top))
    return Sentence(left, adds, right, letters, read)


@lru_cache(maxsize=1024)
def conditions(text: str) -> tuple[Node, ...]:
    """The trees of the conditions that a text lists; none of an empty text. Raises GrammarError."""
    if not text:
        return ()
    reader = _Reader(text)
    found = reader.conditions()
    reader.end()
    return found


@lru_cache(maxsize=8192)
def nodes(text: str, condition: str = "") -> tuple[Node, ...]:
    """All nodes of a line, of what its letters are chosen as, and of its conditions. Raises GrammarError."""
    tree = sentence(text)
    return (*walk(tree.left), *tree.read, *(node for top in conditions(condition) for node in walk(top)))


class _Reader:
    """Recursive descent, one method a rule."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.tokens: list[tuple[str, str]] = []
        at, end = 0, len(text.rstrip())
        while at < end:
            found = TOKEN.match(text, at)
            if found is None:
                raise GrammarError(f"{text}: no word of the language at {text[at:]!r}")
            kind = str(found.lastgroup)
            self.tokens.append((kind, found[kind]))
            at = found.end()
        self.at = 0

    def fail(self, problem: str) -> NoReturn:
        rest = " ".join(token for _, token in self.tokens[self.at :])
        raise GrammarError(f"{self.text}: {problem}, before {rest!r}")

    def peek(self) -> tuple[str, str]:
        return self.tokens[self.at] if self.at < len(self.tokens) else ("end", "")

    def accept(self, sign: str) -> bool:
        found = self.peek() in (("sign", sign), ("name", sign))
        self.at += found
        return found

    def expect(self, sign: str) -> None:
        if not self.accept(sign):
            self.fail(f"{sign!r} expected")

    def take(self, kind: str) -> str:
        found, token = self.peek()
        if found != kind:
            self.fail(f"a {kind} expected")
        self.at += 1
        return token

    def end(self) -> None:
        if self.at < len(self.tokens):
            self.fail("the end expected")

    def sum(self) -> Node:
        found = self.product()
        while (operator := self.peek()[1]) in ("+", "−") and self.accept(operator):
            found = Operation(operator, (found, self.product()))
        return found

    def product(self) -> Node:
        found = self.factor()
        while (operator := self.peek()[1]) in ("·", "/") and self.accept(operator):
            found = Operation(operator, (found, self.factor()))
        return found

    def factor(self) -> Node:
        if self.peek() == ("over", "Σ"):
            self.at += 1
            letters, where = self.over()
            return Call("Σ", (self.product(),), letters, where)
        if self.accept("−"):
            return Operation("minus", (self.factor(),))
        return self.power()

    def power(self) -> Node:
        base = self.atom()
        for sign, power in POWERS.items():
            if self.accept(sign):
                return Operation("^", (base, Number(power)))
        return Operation("^", (base, self.power())) if self.accept("^") else base

    def atom(self) -> Node:  # noqa: RET503 (fail does not return)
        kind, token = self.peek()
        self.at += 1
        match kind, token:
            case "number", _:
                return Number(token)
            case "over", _:
                letters, where = self.over()
                return self.call(token, letters, where)
            case "name", _:
                return self.named(token)
            case "sign", "√":
                return Operation("√", (self.atom(),))
            case "sign", "⌊":
                inner = self.sum()
                self.expect("⌋")
                return Operation("⌊", (inner,))
            case "sign", "(":
                inner = self.sum()
                self.expect(")")
                return inner
            case "sign", "{":
                return self.pieces()
            case _:
                self.at -= 1
                self.fail("a value expected")

    def named(self, name: str) -> Node:
        if self.accept("["):
            indices = () if self.peek() == ("sign", "]") else self.listed()
            self.expect("]")
            return Reference(name, indices)
        if self.peek() != ("sign", "("):
            return Name(name)
        if name in FUNCTIONS:
            return self.call(name)
        self.expect("(")
        letters = [self.take("name")]
        while self.accept(","):
            letters.append(self.take("name"))
        self.expect(")")
        return Chosen(name, tuple(letters))

    def listed(self) -> tuple[Node, ...]:
        found = [self.sum()]
        while self.accept(","):
            found.append(self.sum())
        return tuple(found)

    def call(self, function: str, over: tuple[str, ...] = (), where: tuple[Node, ...] = ()) -> Call:
        self.expect("(")
        arguments = self.listed()
        beside = self.listed() if self.accept(";") else ()
        self.expect(")")
        return Call(function, arguments, over, where, beside)

    def over(self) -> tuple[tuple[str, ...], tuple[Node, ...]]:
        if not self.accept("{"):
            return (self.take("name"),), ()
        letters = [self.take("name")]
        while self.accept(","):
            letters.append(self.take("name"))
        where = self.conditions() if self.accept("|") else ()
        self.expect("}")
        return tuple(letters), where

    def pieces(self) -> Pieces:
        found: list[tuple[Node, tuple[Node, ...]]] = []
        while True:
            value = self.sum()
            if self.accept("otherwise"):
                self.expect("}")
                return Pieces(tuple(found), value)
            self.expect("if")
            found.append((value, self.conditions()))
            self.expect(";")

    def conditions(self) -> tuple[Node, ...]:
        found = [self.condition()]
        while self.accept(","):
            found.append(self.condition())
        return tuple(found)

    def condition(self) -> Node:
        first = self.sum()
        if self.accept("∈"):
            chosen = self.atom()
            if not isinstance(chosen, Chosen):
                self.fail("a set expected")
            return Membership(first, chosen)
        operands, operators = [first], []
        while (operator := self.peek()[1]) in COMPARISONS and self.accept(operator):
            operators.append(operator)
            operands.append(self.sum())
        if not operators:
            self.fail("a comparison expected")
        return Comparison(tuple(operands), tuple(operators))
