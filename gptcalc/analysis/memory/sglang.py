"""SGLang's cache (0.5.23): pools of tokens that all requests share, sized together.

From python/sglang/srt/model_executor/pool_configurator.py and mem_cache/: every token costs the same in all layers, so
requests take as many tokens as they are long, in pages of one (arg_groups/overrides.py); of 64 where an indexer
chooses, of 256 with compressed entries. Where windowed layers stand beside others they have a pool of their own, whose
tokens are a share of the others' (--swa-full-tokens-ratio: 0.8, with compressed entries 0.1), but more than a
window and a page; here also what so many requests need (a share that is raised).

Of compressed entries a page is padded to 576 bytes in DeepSeek's layout. What compressors keep is fp32, content and
weight: over 4 tokens a ring of 8 for each page of windows, over 128 a ring of 128 for each request and one more.

Weights and cache share what is free at the start times --mem-fraction-static; passes and graphs have the rest. Its own
fraction leaves by the device (arg_groups/memory_hook.py) 1.5 MiB a token of a pass, 2 MiB a sequence of a graph, an
eighth of a GiB a device and 0.5 GiB, and what graphs of prefills take; on large devices 10 GiB at least.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from typing import TypeVar

from msgspec import Struct
from msgspec.structs import replace

from gptcalc.analysis.memory.packed import ALIGNED, compressor
from gptcalc.analysis.memory.pools import Pool
from gptcalc.architecture import Architecture, LatentAttention
from gptcalc.conventions import DEVICE_SHARE, FitRun, InferenceRun
from gptcalc.dtypes import FP32

MIB, GIB = 2**20, 2**30

#: tokens of a page: of entries, where an indexer chooses, else
COMPRESSED, CHOSEN, PLAIN = 256, 64, 1
#: of a hundred tokens of other layers, those of windowed ones
SHARE, SHARE_COMPRESSED = 80, 10
#: rows of the states over 128 tokens are a multiple of this
ROWS = 128


class Pools:
    """The tokens of SGLang's pools for so many requests of a length."""

    def __init__(self, pools: Sequence[Pool], context: int, requests: int) -> None:
        self.pools = pools
        self.requests = requests
        self.is_compressed = any(pool.every > 1 for pool in pools)
        chosen = any(pool.kind == "index" for pool in pools)
        self.page = COMPRESSED if self.is_compressed else CHOSEN if chosen else PLAIN
        self.length = -(-context // self.page) * self.page
        self.tokens = requests * self.length
        grow = [pool for pool in pools if pool.grows]
        self.has_others = any(pool.limit is None for pool in grow)

    def window(self, limit: int) -> int:
        """Tokens of windowed layers."""
        if not self.has_others or not self.requests:
            return self.tokens
        share = self.tokens * (SHARE_COMPRESSED if self.is_compressed else SHARE) // 100
        least = (limit + self.page) // self.page * self.page + self.page  # it refuses to start with no more
        return max(share // self.page * self.page, least, self.requests * min(self.length, limit))

    def grown(self, pool: Pool) -> tuple[int, int]:
        """Tokens of a pool that grows, and its bytes."""
        tokens = self.tokens if pool.limit is None else self.window(pool.limit)
        entries = self.page // pool.every
        if self.is_compressed and pool.bytes % pool.elements and pool.kind != "index":  # scales stand between numbers
            size = -(-entries * pool.bytes // ALIGNED) * ALIGNED
        else:
            size = entries * pool.bytes
        return tokens, pool.layers * size * (tokens // self.page)

    def states(self, kept: Pool) -> int:
        """Bytes of what compressors keep in such layers."""
        size = 0
        for pool in (other for other in self.pools if other.name == kept.name and other.every > 1):
            own = compressor(pool.every)
            row = FP32.block_bytes * 2 * own.halves * pool.elements
            if own.halves > 1:
                limit = max(other.limit or 0 for other in self.pools)
                rows = self.window(limit) // self.page * own.tokens
            else:
                rows = -(-((self.requests + 1) * own.tokens + own.tokens + 1) // ROWS) * ROWS
            size += rows * row
        return kept.layers * size


# --- its start --------------------------------------------------------------------------------------------------------


class Tier(Struct, frozen=True):
    """What it does at once on a device with less than so many GiB: tokens of a pass, sequences of a graph on fewer than
    four devices, and on more."""

    below: int
    tokens: int
    few: int
    many: int


TIERS = (
    Tier(20, 2048, 8, 8),
    Tier(35, 4096, 48, 160),
    Tier(60, 4096, 32, 160),
    Tier(160, 8192, 256, 512),
    Tier(2**20, 16384, 512, 512),
)
#: on devices of so many GiB it leaves this at least
LARGE, LEAST = 60, 10 * GIB
#: of latent attention, graphs of prefills take
LATENT_GRAPHS = 3 * GIB // 2
#: lengths of prefills that have a graph: from, to and a step
GRAPHS = ((4, 33, 4), (48, 257, 16), (288, 513, 32), (576, 1025, 64), (1280, 4097, 256), (4608, 2**20, 512))
#: gone before the cache is made, beside weights: the driver's context, with a communicator the most of three logs
#: (sglang#11716: 1.77 to 2.01 GB on eight devices; vllm#21348: 367,404 tokens; aisimulate#263: some 509,000 tokens)
CONTEXT, COMMUNICATOR = GIB // 2, 3 * GIB
#: those logs are met to this
MARGIN = GIB

#: what is said of it
STARTED = (
    "overhead: what SGLang 0.5.23 leaves free for passes and graphs by its own rule, beyond what may not be used, and"
    " the driver's context; met to 1 GiB in 2 logs. A --utilization of one's own is its --mem-fraction-static"
)

H = TypeVar("H", bound=InferenceRun)


def tier(memory: int) -> Tier:
    return next(one for one in TIERS if memory < one.below * GIB)


def settled(architecture: Architecture, how: H, memory: int) -> H:
    """The same run with SGLang's own choices for this device where nothing else is said. A share of the device that is
    not what all engines get is --mem-fraction-static; else its own is taken."""
    chunk = tier(memory).tokens if how.prefill_chunk is None else how.prefill_chunk
    how = replace(how, prefill_chunk=chunk)
    if not isinstance(how, FitRun):
        return how
    share = Fraction(str(how.utilization))
    free = memory - (CONTEXT if how.tp * how.pp == 1 else COMMUNICATOR)
    told = share not in (1, Fraction(str(DEVICE_SHARE)))
    static = int(free * (share if told else min(share, fraction(architecture, how, memory))))
    return replace(how, overhead=how.overhead + max(0, int(memory * share) - static))


def fraction(architecture: Architecture, how: InferenceRun, memory: int) -> Fraction:
    """Of what is free at the start, the part for weights and cache, where --mem-fraction-static doesn't say."""
    own, devices = tier(memory), how.tp * how.pp
    chunk = own.tokens if how.prefill_chunk is None else how.prefill_chunk
    left = 512 * MIB + max(chunk, 2048) * 3 * MIB // 2 + devices * GIB // 8
    left += (own.few if how.tp < 4 else own.many) * 2 * MIB
    if any(isinstance(mixer, LatentAttention) for mixer in architecture.mixers()):
        left += LATENT_GRAPHS
    elif how.pp == 1:
        left += 8 * MIB * sum(len(range(first, min(last, chunk + 1), step)) for first, last, step in GRAPHS)
    if memory > LARGE * GIB:
        left = max(left, LEAST)
    return Fraction(round(1000 * (memory - left) / memory), 1000)
