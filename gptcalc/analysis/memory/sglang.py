"""SGLang's cache (0.5.23): pools of tokens that all requests share, sized together.

From python/sglang/srt/model_executor/pool_configurator.py and mem_cache/: every token costs the same in all layers, so
requests take as many tokens as they are long, in pages of one (arg_groups/overrides.py); of 64 where an indexer
chooses, of 256 with compressed entries. Where windowed layers stand beside others they have a pool of their own, whose
tokens are a share of the others' (--swa-full-tokens-ratio: 0.8, with compressed entries 0.1), but more than a
window and a page; here also what so many requests need (a share that is raised).

Of compressed entries a page is padded to 576 bytes in DeepSeek's layout. What compressors keep is fp32, content and
weight: over 4 tokens a ring of 8 for each page of windows, over 128 a ring of 128 for each request and one more.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from gptcalc.analysis.memory.packed import ALIGNED, compressor
from gptcalc.dtypes import FP32

if TYPE_CHECKING:
    from gptcalc.analysis.memory.engines import Pool

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
