"""The letters: which symbol stands for which size, in one model."""

from __future__ import annotations

from gptcalc.equations.language import Index, Named
from gptcalc.equations.roles import Role, Shard


class Symbols:
    """Symbols and their values. Two sections that differ in a size get two symbols (d_ff, d_ff_wide)."""

    def __init__(self) -> None:
        self.values: dict[str, int] = {}
        self.numbers: dict[str, Named] = {}  # what is no size: a base of frequencies, a factor, a limit

    def index(self, symbol: str, size: int, role: Role, section: str = "", shard: Shard | None = None) -> Index:
        """An index whose range is the symbol itself, renamed where another section gives it another value."""
        symbol = self._free(symbol, size, section)
        self.values[symbol] = size
        return Index(symbol, size, role, shard)

    def number(self, name: str, value: Named, section: str = "") -> str:
        """The name of a number that is no size, another where a section gives it another value."""
        name = self._free(name, value, section)
        self.numbers[name] = value
        return name

    def _free(self, name: str, value: Named, section: str) -> str:
        """The name that this value has or may have."""
        if self._taken(name, value):
            name = f"{name}_{section}" if section else f"{name}′"
            while self._taken(name, value):
                name += "′"
        return name

    def _taken(self, name: str, value: Named) -> bool:
        return self.values.get(name, value) != value or self.numbers.get(name, value) != value

    @staticmethod
    def derived(text: str, size: int, role: Role, shard: Shard | None = None) -> Index:
        """An index whose range is an expression in other symbols, such as n_heads/n_kv_heads."""
        return Index(text, size, role, shard)
