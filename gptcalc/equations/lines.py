"""Writing lines: what collects a sublayer's, and pieces of text that many have."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Literal

from msgspec.structs import replace

from gptcalc.architecture import Prefix
from gptcalc.equations.conditions import Condition, Constant, Keep, Lettered
from gptcalc.equations.language import Aside, Index, Line, Mark, Named, Passes, weight
from gptcalc.equations.roles import Stored

if TYPE_CHECKING:
    from gptcalc.equations.symbols import Symbols


class Lines:
    """Collects a sublayer's lines. One scope, one component, one prefix of keys and the numbers that they have by name
    serve all of them."""

    def __init__(self, prefix: Prefix | str, component: str, scope: dict[str, Index], symbols: Symbols,
                 section: str = "") -> None:  # fmt: skip
        """`section`: what the document calls the sublayer."""
        self.prefix = Prefix(prefix) if isinstance(prefix, str) else prefix
        self.component = component
        self.scope = scope
        self.symbols = symbols
        self.section = section
        self.lines: list[Line] = []
        self.numbers: dict[str, Named] = {}

    def number(self, name: str, value: Named) -> str:
        """The letter of a number that is no size; the lines behind that have it know what it is."""
        name = self.symbols.number(name, value, self.section)
        self.numbers[name] = value
        return name

    def factor(self, name: str, value: float) -> str:
        """The letter of a number in front of what it multiplies; nothing where it is 1."""
        return "" if value == 1.0 else f"{self.number(name, value)}·"

    def during(self, passes: Passes, lines: Lines) -> None:
        """Lines that run in some passes of a loop alone."""
        self.lines += [replace(line, passes=passes) for line in lines.lines]

    def under(self, component: str, prefix: str | None = None) -> Lines:
        """The same list of lines, entered under another component, and with keys of another prefix."""
        found = Lines(self.prefix if prefix is None else prefix, component, self.scope, self.symbols, self.section)
        found.lines, found.numbers = self.lines, self.numbers
        return found

    def apart(self, component: str = "") -> Lines:
        """An empty list of lines of the same sublayer."""
        return Lines(self.prefix, component or self.component, self.scope, self.symbols, self.section)

    def sum(
        self,
        text: str,
        condition: Condition | None = None,
        saved: int = 0,
        component: str = "",
        aside: Aside | None = None,
        **keys: str | Mark,
    ) -> None:
        """A counted sum. Keywords mark weights: symbol = key after the prefix."""
        self._add("sum", text, condition, saved, component, keys, aside=aside)

    def pointwise(
        self,
        text: str,
        condition: Condition | None = None,
        saved: int = 0,
        component: str = "",
        flash: int = 0,
        constants: Mapping[str, Named] | None = None,
        aside: Aside | None = None,
        **keys: str | Mark,
    ) -> None:
        """A line without FLOPs."""
        self._add("pointwise", text, condition, saved, component, keys, flash, constants, aside)

    def store(self, text: str, stored: Stored, kept: Keep) -> None:
        """A line whose left side stays in the cache."""
        line = Line(
            text=text,
            kind="store",
            component=self.component,
            scope=self.scope,
            part=str(self.prefix),
            stored=stored,
            kept=kept,
        )
        self.lines.append(line)

    def keep(self, state: str) -> None:
        """What the last line that makes a state leaves stays in the cache."""
        at = max(n for n, line in enumerate(self.lines) if line.statement.left.name == state)
        self.lines[at] = replace(self.lines[at], stored="state", kept=Constant())

    def read(self, text: str) -> None:
        """A line that reads what another sublayer stored."""
        line = Line(text=text, kind="read", component=self.component, scope=self.scope, part=str(self.prefix))
        self.lines.append(line)

    def _add(
        self,
        kind: Literal["sum", "pointwise"],
        text: str,
        condition: Condition | None,
        saved: int,
        component: str,
        keys: dict[str, str | Mark],
        flash: int = 0,
        constants: Mapping[str, Named] | None = None,
        aside: Aside | None = None,
    ) -> None:
        where = component or self.component
        marks = {name: weight(self.prefix, mark, where) for name, mark in keys.items()} if keys else {}
        whole = text
        if isinstance(condition, Lettered):
            condition = condition.named(self.number)
            whole = f"{text} {condition}"
        if self.numbers:
            numbers = {name: value for name, value in self.numbers.items() if name in whole}
            constants = {**numbers, **constants} if constants else numbers
        line = Line(
            text=text, kind=kind, component=where, scope=self.scope, part=str(self.prefix), weights=marks,
            condition=condition, saved=saved, aside=aside, flash=flash, constants=constants or {},
        )  # fmt: skip
        self.lines.append(line)


def bracketed(text: str) -> str:
    """A size as a factor: one that is made of several in brackets."""
    return text if text.replace("_", "").replace("′", "").isalnum() else f"({text})"


def root(index: Index, times: int = 1) -> str:
    """√ of how many an index runs over, or so many times that: √d_head, √(d/n_heads), √(3·d_head)."""
    symbol = f"({index.symbol})" if "+" in index.symbol and times > 1 else index.symbol
    return f"√{bracketed(symbol if times == 1 else f'{times}·{symbol}')}"


def plus(bias: str, present: bool) -> str:
    """A bias at the end of a line, where there is one."""
    return f" + {bias}" if present else ""


def ix(*letters: str) -> str:
    """Indices between brackets; "" stands for none."""
    return ",".join(letter for letter in letters if letter)
