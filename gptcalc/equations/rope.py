"""Rotary positions (arXiv:2104.09864): the frequencies ω of the pairs of channels, and the lines that turn them."""

from __future__ import annotations

import math
from typing import assert_never

from gptcalc.architecture import NTK, Dynamic, Linear, Llama3, LongRope, Proportional, Rope, Yarn, pairs, rotated
from gptcalc.equations.conditions import Condition
from gptcalc.equations.language import Index, Lines, Named, number
from gptcalc.equations.symbols import Symbols


def turned(rope: Rope, width: int) -> int:
    """How many channels of a head are paired; those that a proportional scaling leaves alone turn by angle 0."""
    return width if isinstance(rope.scaling, Proportional) else rotated(rope, width)


def pairs_scope(rope: Rope | None, width: int) -> dict[str, Index]:
    """What ϕ runs over: the pairs of channels that turn."""
    if rope is None:
        return {}
    number_of_pairs = pairs(rope, turned(rope, width))
    return {"ϕ": Symbols.derived(str(number_of_pairs), number_of_pairs, "frequencies")}


class Rotation:
    """How the channels of one sublayer's heads turn. ϕ counts the pairs."""

    def __init__(self, rope: Rope, width: int, context: int, learned: bool) -> None:
        """`width`: channels of a head. `context`: the model's c. `learned`: there are factors of the frequencies."""
        self.rope = rope
        self.learned = learned
        self.context = context
        self.channels = turned(rope, width)

    def frequencies(self, lines: Lines) -> None:
        """ω[ϕ]: by what angle a pair turns from one position to the next."""
        rope, n = self.rope, pairs(self.rope, self.channels)
        constants: dict[str, Named] = {}
        base = number(rope.theta)
        scaling = rope.scaling
        match scaling:
            case None:
                text = f"{base}^(−ϕ/{n})"
            case Linear():
                text = f"{base}^(−ϕ/{n})/{number(scaling.factor)}"
            case NTK():
                text = f"({base}·{number(scaling.factor)}^({self.channels}/{self.channels - 2}))^(−ϕ/{n})"
            case Dynamic():
                factor, original = number(scaling.factor), scaling.original
                stretch = f"({factor}·max(S, {original})/{original} − ({factor} − 1))"
                text = f"({base}·{stretch}^({self.channels}/{self.channels - 2}))^(−ϕ/{n})"
            case Llama3():
                text = self._llama3(lines, scaling, f"{base}^(−ϕ/{n})")
            case Yarn():
                text = self._yarn(lines, scaling, f"{base}^(−ϕ/{n})")
            case LongRope():
                constants = {"D_short": scaling.short, "D_long": scaling.long}
                divisor = f"{{D_short[ϕ] if S ≤ {scaling.original}; D_long[ϕ] otherwise}}"
                text = f"{base}^(−ϕ/{n})/{divisor}"
            case Proportional():
                turning = rotated(rope, self.channels) // 2
                text = f"{base}^(−ϕ/{n})"
                text = f"{text}/{number(scaling.factor)}" if scaling.factor != 1.0 else text
                if turning < n:
                    text = f"{{{text} if ϕ < {turning}; 0 otherwise}}"
            case _:
                assert_never(scaling)
        learned = "f_ω[ϕ]·" if self.learned else ""
        sign = "−" if rope.backward else ""
        lines.pointwise(f"ω[ϕ] = {sign}{learned}{text}", constants=constants)

    @staticmethod
    def _llama3(lines: Lines, scaling: Llama3, plain: str) -> str:
        """Few turns within the original context: divided by the factor; many: kept; between: a smooth mixture."""
        low, high = number(scaling.low), number(scaling.high)
        turns = f"{number(scaling.original / (2 * math.pi))}·{plain}"
        if scaling.low == scaling.high:
            kept = f"{{1 if {turns} > {high}; 0 otherwise}}"
        else:
            kept = f"clip(({turns} − {low})/({high} − {low}), 0, 1)"
        lines.pointwise(f"m_ω[ϕ] = {kept}")
        return f"{plain}·(m_ω[ϕ] + (1 − m_ω[ϕ])/{number(scaling.factor)})"

    def _yarn(self, lines: Lines, scaling: Yarn, plain: str) -> str:
        """From the pair that makes beta_fast turns in the original context to that of beta_slow: kept to divided."""

        def pair_with(turns: float) -> float:
            r = self.channels
            return r * math.log(scaling.original / (turns * 2 * math.pi)) / (2 * math.log(self.rope.theta))

        low, high = pair_with(scaling.beta_fast), pair_with(scaling.beta_slow)
        if scaling.truncate:
            low, high = math.floor(low), math.ceil(high)
        low, high = max(low, 0), min(high, self.channels - 1)
        span = high - low or 0.001
        start = f"ϕ − {number(low)}" if low >= 0 else f"ϕ + {number(-low)}"
        lines.pointwise(f"m_ω[ϕ] = clip(({start})/{number(span) if span > 0 else f'(−{number(-span)})'}, 0, 1)")
        return f"{plain}·(1 − m_ω[ϕ] + m_ω[ϕ]/{number(scaling.factor)})"

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
        first: int = 0,
        condition: Condition | None = None,
        pairing: str | None = None,
    ) -> None:
        """what = what, its channels from `first` on turned by the position (a negative one turns back)."""
        function = "rotate" if (pairing or self.rope.pairing) == "half" else "rotate_adjacent"
        for at in self.places(position):
            more = [number(self.factor)] if self.factor != 1.0 or first else []
            more += [str(first)] if first else []
            arguments = ", ".join([what, f"{at}·ω[ϕ]", *more])
            lines.pointwise(f"{what} = {function}_{{{channel},ϕ}}({arguments})", condition)
            first += self.channels // 2

    def places(self, position: str) -> list[str]:
        """What turns the channels of each axis: positions; or those in the prompt of T_P tokens and those behind it."""
        if self.rope.axes == 1:
            return [position]
        return [f"min({position}, T_P − 1)", f"max({position} − T_P + 1, 0)"]
