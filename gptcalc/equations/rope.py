"""Rotary positions (arXiv:2104.09864): the frequencies ω of the pairs of channels, and the lines that turn them.

Bases, factors and lengths stand in the lines as letters, named by their keys; what they are stands beside the line.
"""

from __future__ import annotations

import math
from typing import assert_never

from gptcalc.architecture import NTK, Dynamic, Linear, Llama3, LongRope, Proportional, Rope, Yarn, pairs, rotated
from gptcalc.equations.conditions import Condition
from gptcalc.equations.language import Index
from gptcalc.equations.lines import Lines, bracketed
from gptcalc.equations.symbols import Symbols


def turned(rope: Rope, width: int) -> int:
    """How many channels of a head are paired; those that a proportional scaling leaves alone turn by angle 0."""
    return width if isinstance(rope.scaling, Proportional) else rotated(rope, width)


def turning(rope: Rope, width: Index, symbols: Symbols, section: str) -> Index:
    """The same as an index: all channels of a head, or d_rope of them."""
    return some(turned(rope, width.size), width, symbols, section)


def some(n: int, width: Index, symbols: Symbols, section: str) -> Index:
    return width if n == width.size else symbols.index("d_rope", n, "channels", section)


def pairs_scope(rope: Rope | None, width: Index, symbols: Symbols, section: str) -> dict[str, Index]:
    """What ϕ runs over: the pairs of channels that turn."""
    if rope is None:
        return {}
    channels = turning(rope, width, symbols, section)
    text = f"{channels.symbol}/{2 * rope.axes}"
    return {"ϕ": symbols.derived(text, pairs(rope, channels.size), "frequencies")}


def last(lines: Lines, channel: str, rotation: Rotation | None) -> str:
    """The first of those channels that turn where they are a head's last; "" where they are all."""
    width = lines.scope[channel]
    if rotation is None or rotation.channels == width.size:
        return ""
    return f"{width.symbol} − {rotation.turned.symbol}"


class Rotation:
    """How the channels of one sublayer's heads turn. ϕ counts the pairs."""

    def __init__(self, rope: Rope, turned: Index, context: int, learned: bool) -> None:
        """`turned`: those channels of a head that do. `context`: the model's c. `learned`: there are factors of the
        frequencies."""
        self.rope = rope
        self.learned = learned
        self.context = context
        self.turned = turned
        self.channels = turned.size
        self.symbol = bracketed(turned.symbol)

    def frequencies(self, lines: Lines) -> None:
        """ω[ϕ]: by what angle a pair turns from one position to the next."""
        r, scaling = self.symbol, self.rope.scaling
        base, exponent = lines.number("θ", self.rope.theta), f"(−{2 * self.rope.axes}·ϕ/{r})"
        plain = f"{base}^{exponent}"
        match scaling:
            case None:
                text = plain
            case Linear():
                text = f"{plain}/{lines.number('factor', scaling.factor)}"
            case NTK():
                text = f"({base}·{lines.number('factor', scaling.factor)}^({r}/({r} − 2)))^{exponent}"
            case Dynamic():
                factor, original = lines.number("factor", scaling.factor), lines.number("original", scaling.original)
                stretch = f"({factor}·max(S, {original})/{original} − ({factor} − 1))"
                text = f"({base}·{stretch}^({r}/({r} − 2)))^{exponent}"
            case Llama3():
                text = self._llama3(lines, scaling, plain)
            case Yarn():
                text = self._yarn(lines, scaling, plain, base)
            case LongRope():
                short, long = lines.number("D_short", scaling.short), lines.number("D_long", scaling.long)
                original = lines.number("original", scaling.original)
                text = f"{plain}/{{{short}[ϕ] if S ≤ {original}; {long}[ϕ] otherwise}}"
            case Proportional():
                text = plain if scaling.factor == 1.0 else f"{plain}/{lines.number('factor', scaling.factor)}"
                part = some(rotated(self.rope, self.channels), self.turned, lines.symbols, lines.section)
                if part.size // 2 < self.channels // 2:
                    text = f"{{{text} if ϕ < {part.symbol}/2; 0 otherwise}}"
            case _:
                assert_never(scaling)
        learned = "f_ω[ϕ]·" if self.learned else ""
        sign = "−" if self.rope.backward else ""
        lines.pointwise(f"ω[ϕ] = {sign}{learned}{text}")

    @staticmethod
    def _llama3(lines: Lines, scaling: Llama3, plain: str) -> str:
        """Few turns within the original context: divided by the factor; many: kept; between: a smooth mixture."""
        low, high = lines.number("low", scaling.low), lines.number("high", scaling.high)
        turns = f"{lines.number('original', scaling.original)}/{lines.number('turn', 2 * math.pi)}·{plain}"
        if scaling.low == scaling.high:
            kept = f"{{1 if {turns} > {high}; 0 otherwise}}"
        else:
            kept = f"clip(({turns} − {low})/({high} − {low}), 0, 1)"
        lines.pointwise(f"m_ω[ϕ] = {kept}")
        return f"{plain}·{mixed(lines, scaling)}"

    def _yarn(self, lines: Lines, scaling: Yarn, plain: str, base: str) -> str:
        """From the pair that makes beta_fast turns in the original context to that of beta_slow: kept to divided."""
        original, turn = lines.number("original", scaling.original), lines.number("turn", 2 * math.pi)

        def pair_with(turns: str) -> str:
            return f"{self.symbol}·ln({original}/({turns}·{turn}))/(2·ln({base}))"

        first = pair_with(lines.number("beta_fast", scaling.beta_fast))
        behind = pair_with(lines.number("beta_slow", scaling.beta_slow))
        if scaling.truncate:
            first, behind = f"⌊{first}⌋", f"−⌊−{behind}⌋"
        lines.pointwise(f"ϕ_fast[] = max({first}, 0)")
        lines.pointwise(f"ϕ_slow[] = min({behind}, {self.symbol} − 1)")
        if self._meet(scaling):
            lines.pointwise(f"ϕ_slow[] = ϕ_slow[] + {lines.number('ε', SPAN)}")
        lines.pointwise("m_ω[ϕ] = 1 − clip((ϕ − ϕ_fast[])/(ϕ_slow[] − ϕ_fast[]), 0, 1)")
        return f"{plain}·{mixed(lines, scaling)}"

    def _meet(self, scaling: Yarn) -> bool:
        """Whether the ramp's ends are one pair."""
        turns = (scaling.original / (2 * math.pi * beta) for beta in (scaling.beta_fast, scaling.beta_slow))
        first, behind = (self.channels * math.log(n) / (2 * math.log(self.rope.theta)) for n in turns)
        if scaling.truncate:
            first, behind = math.floor(first), math.ceil(behind)
        return max(first, 0) == min(behind, self.channels - 1)

    @property
    def factor(self) -> float:
        """By what the turned channels are stretched."""
        scaling = self.rope.scaling
        if isinstance(scaling, (Yarn, LongRope)) and scaling.attention_factor is not None:
            return scaling.attention_factor
        if isinstance(scaling, Yarn):
            if scaling.mscale and scaling.mscale_all_dim:
                return scaling.sharpening(scaling.mscale) / scaling.sharpening(scaling.mscale_all_dim)
            return scaling.sharpening(1.0)
        if isinstance(scaling, LongRope):
            stretch = scaling.factor if scaling.factor is not None else self.context / scaling.original
            return math.sqrt(1 + math.log(stretch) / math.log(scaling.original)) if stretch > 1 else 1.0
        return 1.0

    def turn(
        self,
        lines: Lines,
        what: str,
        channel: str,
        position: str = "t",
        first: str = "",
        condition: Condition | None = None,
        pairing: str | None = None,
    ) -> None:
        """what = what, its channels from `first` on turned by the position (a negative one turns back)."""
        function = "rotate" if (pairing or self.rope.pairing) == "half" else "rotate_adjacent"
        for at in self.places(position):
            factor = "1" if self.factor == 1.0 else lines.number("stretch", self.factor)
            more = [factor, first] if first else [factor] if factor != "1" else []
            arguments = ", ".join([what, f"{at}·ω[ϕ]", *more])
            lines.pointwise(f"{what} = {function}_{{{channel},ϕ}}({arguments})", condition)
            first = f"{first} + {self.symbol}/2" if first else f"{self.symbol}/2"

    def places(self, position: str) -> list[str]:
        """What turns the channels of each axis: positions; or those in the prompt of T_P tokens and those behind it."""
        if self.rope.axes == 1:
            return [position]
        return [f"min({position}, T_P − 1)", f"max({position} − T_P + 1, 0)"]


#: how far apart the ends of YaRN's ramp are where both are one pair, as its code has it
SPAN = 0.001


def mixed(lines: Lines, scaling: Llama3 | Yarn) -> str:
    """A frequency's factor: 1 where it is kept."""
    return f"(m_ω[ϕ] + (1 − m_ω[ϕ])/{lines.number('factor', scaling.factor)})"
