"""Files that are right but for a few places: values changed, removed, named otherwise; bytes turned, cut, repeated."""

from __future__ import annotations

from collections.abc import Iterator
from copy import deepcopy
from typing import Any

from hypothesis import strategies as st

ODD_VALUES: tuple[Any, ...] = (
    *(None, True, False, 0, 1, -1, 2, 3, 7, 64, 4096, 2**31, 2**64, 10**30, 1.5, -0.0, 1e-5, 1e300, 1e-300),
    *["1", "-1", "x", "none", "default", "gelu", "silu", "full_attention", "n*attn", "attn", "mlp"],
    *("", " ", "\x1b[31m", "\ud800", "é" * 500, "9" * 400),
    *([], [0], [1, 2], [None], [[]], ["x"], [1.5] * 3, [{}]),
    *({}, {"x": 1}, {"type": "x"}, {"kind": "x"}, {"from": "x"}, {"like": "attn"}),
)

Place = tuple[Any, Any]  # what holds a value, and its key or index there


def places(value: Any) -> Iterator[Place]:
    """Every place of a document."""
    for key, item in value.items() if isinstance(value, dict) else enumerate(value[:4]):
        yield value, key
        if isinstance(item, (dict, list)):
            yield from places(item)


@st.composite
def changed(draw: st.DrawFn, documents: list[dict[str, Any]]) -> dict[str, Any]:
    """A document with one to three places changed."""
    document = deepcopy(draw(st.sampled_from(documents)))
    for _ in range(draw(st.integers(1, 3))):
        there = list(places(document))
        if not there:
            break
        holder, key = draw(st.sampled_from(there))
        match draw(st.integers(0, 5)):
            case 0:
                del holder[key]
            case 1 if isinstance(holder, dict):
                holder[draw(st.sampled_from(sorted({str(k) for _, k in there})))] = holder.pop(key)
            case 2 if isinstance(holder[key], int) and not isinstance(holder[key], bool):
                holder[key] += draw(st.sampled_from([-2, -1, 1, 2]))
            case 3:
                other, where = draw(st.sampled_from(there))
                holder[key] = deepcopy(other[where])
            case _:
                holder[key] = deepcopy(draw(st.sampled_from(ODD_VALUES)))
    return document


@st.composite
def damaged(draw: st.DrawFn, samples: list[bytes], head: int) -> bytes:
    """A file with bytes of its first `head` changed, or cut, or with a piece twice."""
    data = bytearray(draw(st.sampled_from(samples)))
    for _ in range(draw(st.integers(1, 4))):
        at = draw(st.integers(0, max(0, min(head, len(data)) - 1)))
        match draw(st.integers(0, 4)):
            case 0:
                data = data[:at]
            case 1:
                data[at:at] = data[at : at + draw(st.integers(1, 64))]
            case 2:
                data[at : at + draw(st.integers(1, 8))] = draw(st.binary(max_size=8))
            case 3:
                data[at : at + 1] = bytes([draw(st.sampled_from([0, 1, 0x7F, 0x80, 0xFF, 0x22, 0x7B, 0x2E]))])
            case _:
                data[at : at + 8] = draw(st.integers(0, 2**64 - 1)).to_bytes(8, "little")
    return bytes(data)
