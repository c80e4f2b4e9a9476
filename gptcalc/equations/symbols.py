"""The letters: which symbol stands for which size, in one model."""

from __future__ import annotations

from gptcalc.equations.language import Index
from gptcalc.equations.roles import Role, Shard


class Symbols:
    """Symbols and their values. Two sections that differ in a size get two symbols (d_ff, d_ff_wide)."""

    def __init__(self) -> None:
        self.values: dict[str, int] = {}

    def index(self, symbol: str, size: int, role: Role, section: str = "", shard: Shard | None = None) -> Index:
        """An index whose range is the symbol itself, renamed where another section gives it another value."""
        if self.values.setdefault(symbol, size) != size:
            symbol = f"{symbol}_{section}"
            while self.values.setdefault(symbol, size) != size:
                symbol += "′"
        return Index(symbol, size, role, shard)

    @staticmethod
    def derived(text: str, size: int, role: Role, shard: Shard | None = None) -> Index:
        """An index whose range is an expression in other symbols, such as n_heads/n_kv_heads."""
        return Index(text, size, role, shard)
