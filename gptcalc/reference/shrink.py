"""A small copy of an architecture: one layer of each distinct kind, every size small and none larger than it was, all
pairwise different and coprime where their constraints allow, so that no two can be mixed up unnoticed.

How small a number becomes, its field declares (`architecture.base`); here stand the rules that couple several fields.
What was equal by need stays equal (the heads of a layer that reuses another's keys, d_v where K serves as V), what was
1 stays 1 (one KV head, one chosen expert), and grouping stays grouping. Everything else keeps its value.
"""

from __future__ import annotations

import math
from collections.abc import Hashable
from typing import Any, TypeVar, assert_never

from msgspec.structs import replace

from gptcalc.architecture import (
    Architecture,
    AtMost,
    Attention,
    CompressedAttention,
    Encoder,
    Engram,
    Experts,
    Hashing,
    Kept,
    LatentAttention,
    LongRope,
    Multiple,
    Repeat,
    Rope,
    Small,
    Strict,
    apart,
    is_looped,
    is_partial,
    numbers,
    pairs_turned,
    placed,
    rotated,
)

#: primes, for heads that look up rows of a table
FEW_ROWS = (5, 7, 11, 13, 17, 19, 23, 29)

Part = TypeVar("Part", bound=Strict)
Stack = TypeVar("Stack", Architecture, Encoder)


def shrink(architecture: Architecture) -> Architecture:
    """The small copy. Equal architectures give equal copies."""
    shrinking = _Shrinking()
    if architecture.streams is not None:
        shrinking.part(architecture.streams)  # first: they count squared
    small = shrinking.part(_once(architecture))
    if small.learned_frequencies:
        turned = pairs_turned(block for block, _ in small.groups())
        small = replace(small, learned_frequencies=max(turned))
    if small.attention_residuals is not None or is_looped(small):
        small = replace(small, layers=placed(small.layers, small.attention_residuals))
    return small


def _once(stack: Stack) -> Stack:
    """The stack with one layer of each kind, those of loops behind the others; two where layers differ by the sums that
    they mix."""
    blocks = tuple(dict.fromkeys(apart(block) for block, _ in stack.groups()))
    mixing = isinstance(stack, Architecture) and stack.attention_residuals is not None
    times = 2 if mixing and 2 * len(blocks) <= stack.n_layers else 1
    outside = tuple(block for block in blocks if block.looped is None)
    inside = tuple(block for block in blocks if block.looped is not None)
    layers = tuple(Repeat(count=times, body=body) for body in (outside, inside) if body)
    if inside and isinstance(stack, Architecture):
        layers = placed(layers, stack.attention_residuals)
    return replace(stack, layers=layers)


class _Sizes:
    """Hands out small sizes: the same one for the same purpose and original, else one coprime to all before.

    None is larger than the original or much larger than the least: where many sizes are given, one that is merely new
    does, or one given before.
    """

    def __init__(self) -> None:
        self.given: dict[Hashable, int] = {}
        self.used: set[int] = set()

    def __call__(self, purpose: Hashable, original: int, least: int, step: int = 1) -> int:
        key = (purpose, original, step)
        if key not in self.given:
            first = -(-least // step) * step
            near = [n for n in range(first, min(4 * least + 7, original) + 1, step) if n not in self.used]
            coprime = (n for n in near if all(math.gcd(n // step, other) == 1 for other in self.used))
            n = next(coprime, next(iter(near), first if original % step else min(first, original)))
            self.given[key] = n
            self.used.add(n)
        return self.given[key]


class _Shrinking:
    def __init__(self) -> None:
        self.size = _Sizes()

    def part(self, struct: Part, **ruled: Any) -> Part:
        """A struct with all numbers in it small: those that these or its rules decide, the others as they declare."""
        small = self.rules(struct) | ruled
        for name in struct.__struct_fields__:
            if name in small:
                continue
            value = getattr(struct, name)
            if isinstance(value, Strict):
                small[name] = self.part(value)
            elif isinstance(value, tuple):
                small[name] = tuple(self.part(item) if isinstance(item, Strict) else item for item in value)
            elif name in numbers(type(struct)):
                small[name] = self.number(struct, name)
        return replace(struct, **small)

    def number(self, struct: Strict, name: str, least: int = 0, step: int = 1) -> Any:
        """A number as its field declares it; at least so large, and a multiple of this."""
        value, rule = getattr(struct, name), numbers(type(struct))[name].small
        if value is None:
            return None
        match rule:
            case Small():
                purpose = rule.word or (type(struct), name)
                return self.size(purpose, value, max(least, rule.least), math.lcm(step, rule.step))
            case Multiple():
                times = self.size((type(struct), name), value // getattr(struct, rule.of), rule.least)
                return times * self.rules(struct).get(rule.of, self.number(struct, rule.of))
            case AtMost():
                return min(value, rule.most)
            case Kept() | None:
                return value
            case _:
                assert_never(rule)

    def rules(self, struct: Strict) -> dict[str, Any]:
        """The fields of a struct that others of it decide."""
        match struct:
            case Architecture():
                encoder = struct.encoder
                return self.embedded(struct) | {"encoder": encoder and self.part(_once(encoder))}
            case Encoder():
                return self.embedded(struct)
            case Attention():
                return self.attention(struct)
            case LatentAttention():
                return {"rope": self.rope(struct.rope, struct.d_rope, self.number(struct, "d_rope"))}
            case CompressedAttention():
                return {"rope": self.rope(struct.rope, struct.d_head, self.number(struct, "d_head"))}
            case Experts():
                return self.experts(struct)
            case Hashing():
                return {"rows": tuple(min(rows, FEW_ROWS[n % len(FEW_ROWS)]) for n, rows in enumerate(struct.rows))}
            case Engram():
                rows, more = self.rules(struct.hashing)["rows"], struct.table - sum(struct.hashing.rows)
                return {"table": sum(rows) + min(more, 2)}
            case _:
                return {}

    def embedded(self, stack: Architecture | Encoder) -> dict[str, Any]:
        """Rows times √d stay so."""
        scaled = math.isclose(stack.embedding.scale, math.sqrt(stack.d))
        scale = math.sqrt(self.number(stack, "d")) if scaled else stack.embedding.scale
        return {"embedding": self.part(stack.embedding, scale=scale)}

    def attention(self, a: Attention) -> dict[str, Any]:
        halves = a.rope is not None and a.rope.axes == 2  # of pairs; and some channels more where not all turn
        d_head = self.number(a, "d_head", least=8 if halves else 0, step=4 if halves else 1)
        rules: dict[str, Any] = {"d_head": d_head, "rope": self.rope(a.rope, a.d_head, d_head)}
        if a.k_eq_v:
            rules["d_v"] = d_head
        if a.differential is not None:
            rules["n_kv_heads"] = self.number(a, "n_kv_heads", step=2)
        if a.cca is not None:  # the values' channels have halves
            even = "n_kv_heads" if a.d_v % 2 else "d_v"
            rules[even] = self.number(a, even, step=2)
        relative = a.scores.relative
        if relative is not None and relative.extent == a.window:
            rules["scores"] = self.part(a.scores, relative=self.part(relative, extent=self.number(a, "window")))
        return rules

    def rope(self, rope: Rope | None, original: int, width: int) -> Rope | None:
        """The same rotation of a narrower head; partial stays partial."""
        if rope is None:
            return None
        turned = rotated(rope, original)
        partial = is_partial(rope, original)
        turned = min(turned, width - 2) // (2 * rope.axes) * 2 * rope.axes if partial else width
        scaling = rope.scaling
        if isinstance(scaling, LongRope):
            pairs = turned // 2
            scaling = replace(scaling, short=scaling.short[:pairs], long=scaling.long[:pairs])
        return replace(rope, channels=turned if partial else None, fraction=1.0, scaling=scaling)

    def experts(self, m: Experts) -> dict[str, Any]:
        rules: dict[str, Any] = {}
        if m.identity == "nothing":
            rules["top_k"] = 2  # so that hardly a token chooses nothing alone
        if m.sink is not None:
            rules["shared"] = self.part(m.sink, d_ff=self.number(m.sink, "d_ff", step=self.number(m.sink, "n")))
        if m.groups is not None:
            n = self.number(m.groups, "n")
            choices = self.size((Experts, "choices"), m.n_experts + m.n_identity, max(4, 2 * n), n)
            rules["n_experts"] = choices - self.number(m, "n_identity")
        return rules
