"""The layer expression, such as `3*mla+mlp n*mla+moe`: its grammar and its parser.

    layers = item (' ' item)*          blocks in order
    item   = [count '*'] ( block | '[' layers ']' )      one count may be n: as often as n_layers needs
    block  = part ('+' part)*          sublayers in sequence, each with its residual
    part   = unit ('|' unit)*          units in parallel on the same input
    unit   = name | '(' block ')'

The tree holds names only; what they stand for is the architecture's business.
"""

from __future__ import annotations

from msgspec import Struct

from gptcalc.errors import InputError, printable

MAX_DEPTH = 16
MAX_COUNT = 1_000_000
MAX_NAMES = 4_096  # sublayers written out; real expressions have a few dozen

SIGNS = "*[]()+|"


class BlockNames(Struct, frozen=True):
    """One block: its parts in sequence, each a tuple of parallel units (a name, or a nested block)."""

    parts: tuple[tuple[str | BlockNames, ...], ...]

    def __str__(self) -> str:
        return "+".join("|".join(u if isinstance(u, str) else f"({u})" for u in part) for part in self.parts)


class Repeated(Struct, frozen=True):
    """`count` repetitions of a sequence of blocks; a count of None is written n."""

    count: int | None
    body: tuple[BlockNames | Repeated, ...]

    @property
    def length(self) -> int:
        """Blocks in one repetition."""
        return sum(b.length * (b.count or 0) if isinstance(b, Repeated) else 1 for b in self.body)


def parse(text: str, n_layers: int) -> tuple[Repeated, ...]:
    """The items of a layer expression with every count closed, so that the blocks number n_layers.

    Raises InputError that names the column where the text stops making sense.
    """
    return _close(_Parser(text).layers_to_the_end(), n_layers, text)


def words(text: str) -> set[str]:
    """The words in a text that has expressions in it: names, and counts."""
    return set("".join(sign if sign.isalnum() or sign == "_" else " " for sign in text).split())


def parse_block(text: str) -> BlockNames:
    """A single block, such as `mla+moe`."""
    return _Parser(text).block_to_the_end()


def _close(items: tuple[Repeated, ...], n_layers: int, text: str) -> tuple[Repeated, ...]:
    fixed = sum(item.length * item.count for item in items if item.count is not None)
    open_items = [item for item in items if item.count is None]
    if not open_items:
        if fixed != n_layers:
            raise InputError(f"layers: {shown(text)} has {fixed} blocks, n_layers is {n_layers}")
        return items
    rest = n_layers - fixed
    if rest < 0:
        raise InputError(f"layers: {shown(text)} has {fixed} blocks beside n, n_layers is only {n_layers}")
    closed: list[Repeated] = []
    for item in items:
        if item.count is not None:
            closed.append(item)
            continue
        whole, left = divmod(rest, item.length)
        if whole:
            closed.append(Repeated(whole, item.body))
        if left:
            closed.append(Repeated(1, _first(item.body, left)))
    return tuple(closed)


def _first(body: tuple[BlockNames | Repeated, ...], n: int) -> tuple[BlockNames | Repeated, ...]:
    """The first n blocks of one repetition."""
    taken: list[BlockNames | Repeated] = []
    for part in body:
        if n == 0:
            break
        if isinstance(part, BlockNames):
            taken.append(part)
            n -= 1
            continue
        whole, left = divmod(n, part.length)
        whole = min(whole, part.count or 0)
        if whole:
            taken.append(Repeated(whole, part.body))
            n -= whole * part.length
        if left and whole < (part.count or 0):
            taken.append(Repeated(1, _first(part.body, left)))
            n = 0
    return tuple(taken)


def shown(text: str) -> str:
    """An expression in an error: quoted, and no longer than a line."""
    return repr(printable(text, 120))


class _Parser:
    def __init__(self, text: str) -> None:
        self.text = text
        self.tokens: list[tuple[str, str, int]] = []
        self.at = 0
        position = 0
        while position < len(text):
            if text[position].isspace():
                position += 1
                continue
            kind, word = self.token(position)
            self.tokens.append((kind, word, position))
            position += len(word)
            if len(self.tokens) > 2 * MAX_NAMES:
                raise self.error(0, f"more than {MAX_NAMES} sublayers written out, use counts;")

    def token(self, start: int) -> tuple[str, str]:
        """A sign, a name, or a count, which stands before *; and its text."""
        if self.text[start] in SIGNS:
            return "sign", self.text[start]
        end = start
        while end < len(self.text) and self.text[end].isascii() and (self.text[end].isalnum() or self.text[end] == "_"):
            end += 1
        word = self.text[start:end]
        if word == "n" or word.isdigit():
            behind = end
            while self.text[behind : behind + 1].isspace():
                behind += 1
            if self.text[behind : behind + 1] == "*":
                return "count", word
        if not word or word[0].isdigit():
            raise self.error(start, f"unexpected {self.text[start]!r}")
        return "name", word

    def error(self, position: int, problem: str) -> InputError:
        return InputError(f"layers: {problem} at column {position + 1} of {shown(self.text)}")

    def peek(self) -> str:
        return self.tokens[self.at][1] if self.at < len(self.tokens) else ""

    def column(self) -> int:
        return self.tokens[self.at][2] if self.at < len(self.tokens) else len(self.text)

    def accept(self, sign: str) -> bool:
        if self.at < len(self.tokens) and self.tokens[self.at][0] != "name" and self.peek() == sign:
            self.at += 1
            return True
        return False

    def expect(self, sign: str, where: str) -> None:
        if not self.accept(sign):
            found = repr(self.peek()) if self.peek() else "the end"
            raise self.error(self.column(), f"expected {sign!r} {where}, found {found}")

    def layers_to_the_end(self) -> tuple[Repeated, ...]:
        items: list[Repeated] = []
        open_seen = False
        while self.at < len(self.tokens):
            column = self.column()
            item = self.item(depth=0)
            item = item if isinstance(item, Repeated) else Repeated(1, (item,))
            if item.count is None:
                if open_seen:
                    raise self.error(column, "a second count n")
                open_seen = True
            items.append(item)
        if not items:
            raise self.error(0, "no blocks")
        return tuple(items)

    def block_to_the_end(self) -> BlockNames:
        block = self.block(0)
        if self.at < len(self.tokens):
            raise self.error(self.column(), f"unexpected {self.peek()!r} after one block")
        return block

    def item(self, depth: int) -> BlockNames | Repeated:
        if depth > MAX_DEPTH:
            raise self.error(self.column(), f"brackets nested deeper than {MAX_DEPTH}")
        count: int | None = 1
        if self.at < len(self.tokens) and self.tokens[self.at][0] == "count":
            column, word = self.column(), self.peek()
            if word == "n" and depth:
                raise self.error(column, "the count n stands only outside brackets")
            count = None if word == "n" else self.number(word, column)
            self.at += 1
            self.expect("*", "after a count")
        if self.accept("["):
            body: list[BlockNames | Repeated] = []
            while not self.accept("]"):
                if self.at >= len(self.tokens):
                    raise self.error(len(self.text), "expected ']'")
                body.append(self.item(depth + 1))
            if not body:
                raise self.error(self.column(), "empty brackets")
            return Repeated(count, tuple(body))
        block = self.block(depth)
        return block if count == 1 else Repeated(count, (block,))

    def number(self, word: str, column: int) -> int:
        if len(word) > 7 or not 1 <= int(word) <= MAX_COUNT:
            raise self.error(column, f"a count must be from 1 to {MAX_COUNT}")
        return int(word)

    def block(self, depth: int) -> BlockNames:
        parts = [self.part(depth)]
        while self.accept("+"):
            parts.append(self.part(depth))
        return BlockNames(tuple(parts))

    def part(self, depth: int) -> tuple[str | BlockNames, ...]:
        units = [self.unit(depth)]
        while self.accept("|"):
            units.append(self.unit(depth))
        return tuple(units)

    def unit(self, depth: int) -> str | BlockNames:
        if depth > MAX_DEPTH:
            raise self.error(self.column(), f"brackets nested deeper than {MAX_DEPTH}")
        if self.accept("("):
            block = self.block(depth + 1)
            self.expect(")", "to close '('")
            return block
        if self.at < len(self.tokens) and self.tokens[self.at][0] == "name":
            self.at += 1
            return self.tokens[self.at - 1][1]
        found = repr(self.peek()) if self.peek() else "the end"
        raise self.error(self.column(), f"expected a sublayer's name or '(', found {found}")
