"""What so much memory holds of a cache: tokens, requests, blocks, as vLLM's log has them."""

from __future__ import annotations

from collections.abc import Callable

from msgspec import Struct

from gptcalc.analysis.memory.engines import Blocks
from gptcalc.errors import InputError

#: beyond this nothing grows any more: the answer is "any"
UNBOUNDED = 2**160


class Room(Struct, frozen=True, kw_only=True):
    """What a cache of so many bytes holds. tokens: of requests of the context, the share of a last one with them."""

    bytes: int
    tokens: int
    requests: int  # whole ones of the context
    concurrency: float  # requests of the context, with the share of a last one
    request_bytes: int  # what one takes
    longest: int | None  # tokens of a single request; null: any
    blocks: int | None = None
    block_tokens: int | None = None
    block_bytes: int | None = None


def room(size: int, needed: Callable[[int], int], context: int, cut: Blocks | None) -> Room:
    """needed: bytes that one sequence of a length takes. Whole blocks are shared by requests, as vLLM counts them.

    vllm/v1/core/kv_cache_utils.py, get_max_concurrency_for_kv_cache_config and get_kv_cache_capacity. InputError where
    there is no cache.
    """
    request = needed(context)
    if request == 0:
        raise InputError(
            "no cache: this model keeps nothing from one token to the next", "memory and fit answer", "usage"
        )
    usable = size if cut is None else size // cut.bytes * cut.bytes
    return Room(
        bytes=size,
        tokens=usable * context // request,
        requests=usable // request,
        concurrency=usable / request,
        request_bytes=request,
        longest=most(needed, size),
        blocks=None if cut is None else size // cut.bytes,
        block_tokens=None if cut is None else cut.tokens,
        block_bytes=None if cut is None else cut.bytes,
    )


def largest(fits: Callable[[int], bool], low: int = 0) -> int | None:
    """The largest n for which a condition holds that, once false, stays false; `low` is known to hold. None: any."""
    high = max(low, 1)
    while fits(high):
        low, high = high, 2 * high
        if high > UNBOUNDED:
            return None
    while high - low > 1:
        middle = (low + high) // 2
        if fits(middle):
            low = middle
        else:
            high = middle
    return low


#: how much further the next look is, each time: at once beyond a block of 16 tokens, or of 256
FURTHER = 16


def most(needed: Callable[[int], int], budget: int) -> int | None:
    """The largest n that needs no more than the budget, where more never needs less. None: any.

    What is needed is straight in pieces, or goes up in equal steps; so the next place to look is where the last two
    would meet the budget, and every second time a little further on the other side, lest the pieces be many.
    """
    low, least = 0, needed(0)
    high, guessed = 1, False
    while (size := needed(high)) <= budget:
        slope = size - least
        meets = high + (budget - size) * (high - low) // slope + 1 if slope else FURTHER * high**2
        low, least = high, size
        guessed = not guessed
        high = max(meets if guessed else max(meets, 2 * low), low + 1)
        if high > UNBOUNDED:
            return None
    beyond, guessed, step = True, False, 1
    while high - low > 1:
        guessed = not guessed
        if guessed:
            middle = low + (budget - least) * (high - low) // (size - least)
        elif 2 * step < high - low:
            middle = high - step if beyond else low + step
            step *= FURTHER
        else:
            middle = (low + high) // 2
        middle = min(max(middle, low + 1), high - 1)
        found = needed(middle)
        beyond = found > budget
        if beyond:
            high, size = middle, found
        else:
            low, least = middle, found
    return low
