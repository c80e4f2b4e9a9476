"""vLLM's cache of compressed entries (DeepSeek-V4): pages of several sizes, laid side by side in blocks that all share.

Four kinds of pages are counted by how many a request needs (vllm/models/deepseek_v4/attention.py and compressor.py,
vllm/v1/attention/backends/mla/sparse_swa.py):

full
    Entries, and those of an indexer: of 256 tokens.
window
    The latents of the last W − 1 tokens and of those in flight, 64 to a page; every layer has one.
state
    What a compressor keeps of open entries, in fp32, content and weight of each channel: of entries over 4 tokens,
    which overlap, the last 8 tokens, 4 to a page; of entries over 128 these, 8 to a page. They are paged like a window,
    so during a prefill all tokens in flight have a place: most of what a short request needs.

A page is padded to 576 bytes in DeepSeek's layout, to 512 else. Layers of a kind are split into groups of about equally
many (kv_cache_planning.py, _get_packed_kv_cache_groups); a request takes a block for each page of each group.
"""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct

from gptcalc.analysis.memory.pools import Pool
from gptcalc.dtypes import FP32
from gptcalc.errors import InputError

#: tokens of a page: of entries, of a window
ENTRIES, WINDOW = 256, 64
#: bytes that pages are padded to, in DeepSeek's layout and else
ALIGNED, ALIGNED_PLAIN = 576, 512
#: the kinds of pools of a layer's own latents
LATENTS = ("window", "full")


class Compressor(Struct, frozen=True):
    """What keeps of open entries what they are made of, and how vLLM pages it."""

    every: int  # tokens of an entry
    page: int  # tokens
    halves: int  # of the channels: two where entries overlap

    @property
    def tokens(self) -> int:
        """That are kept: of the open entry, and of the one before where entries overlap."""
        return self.halves * self.every

    @property
    def kept(self) -> int:
        """Numbers of all tokens that are kept, for each channel of an entry; of contents alone, or of weights."""
        return self.tokens * self.halves


COMPRESSORS = {one.every: one for one in (Compressor(4, 4, 2), Compressor(128, 8, 1))}


def compressor(every: int) -> Compressor:
    """That of entries over so many tokens. InputError where engines have none."""
    if every not in COMPRESSORS:
        known = " and ".join(map(str, COMPRESSORS))
        problem = f"engines know entries over {known} tokens, none over {every}"
        raise InputError(problem, "--engine ideal knows them", "unsupported")
    return COMPRESSORS[every]


class Page(Struct, frozen=True):
    """Pages of one size in the layers of a pool."""

    pool: Pool
    bytes: int


class Kind(Struct, frozen=True):
    """Layers that need equally many pages: `tokens` to a page, and how many tokens are kept (None: all)."""

    tokens: int
    limit: int | None
    pages: tuple[Page, ...]

    def needed(self, context: int, flying: int) -> int:
        """Pages of one request, with so many tokens in flight."""
        if self.limit is None:
            return -(-context // self.tokens)
        return -(-min(self.limit - 1 + flying, context) // self.tokens) + 1

    @property
    def layers(self) -> dict[int, int]:
        """Layers by the size of their pages."""
        found: dict[int, int] = {}
        for page in self.pages:
            found[page.bytes] = found.get(page.bytes, 0) + page.pool.layers
        return found

    @property
    def most(self) -> int:
        return max(self.layers.values())

    @property
    def is_balanced(self) -> bool:
        """Whether there are as many pages of one size as of any other: only then the layers can be split."""
        return len(set(self.layers.values())) == 1


class Packed(Struct, frozen=True):
    """How the cache is cut: the bytes of a block, and of every kind of layers how many groups."""

    block: int
    groups: tuple[tuple[Kind, int], ...]


def packed(pools: Sequence[Pool], slots: bool = False) -> Packed:
    """Groups and blocks. slots: as before 0.29, where every size of page had a place of its own in all blocks."""
    found = kinds(pools)
    full = found[0]
    if slots:
        each = nearest([kind.most for kind in found], full.most)
        groups = tuple((kind, 1 if kind is full else -(-kind.most // each)) for kind in found)
        layers = max(-(-kind.most // n) for kind, n in groups)
        return Packed(layers * sum(full.layers), groups)
    least = max((kind.most for kind in found if kind.is_balanced and len(kind.layers) > 1), default=0)
    each = nearest([kind.most for kind in found if kind.is_balanced], least)
    groups = tuple((kind, -(-kind.most // each) if kind.is_balanced else 1) for kind in found)
    return Packed(max(sum(-(-n // split) * size for size, n in kind.layers.items()) for kind, split in groups), groups)


def nearest(counts: Sequence[int], least: int) -> int:
    """The size of groups, from `least`, that these numbers of layers fill best; of equal ones the largest."""
    return min(range(least, max(counts) + 1), key=lambda size: (sum(-n % size for n in counts), -size))


def kinds(pools: Sequence[Pool]) -> list[Kind]:
    """The pages of all layers; those of entries first. InputError where vLLM has no such compressor."""
    entries: list[Page] = []
    windows: dict[int | None, list[Page]] = {}
    states: dict[int, list[Page]] = {}
    for pool in pools:
        if pool.kind in LATENTS:
            windows.setdefault(pool.limit, []).append(Page(pool, _padded(pool, WINDOW * pool.bytes)))
        elif pool.kind in ("compressed", "index"):
            own = compressor(pool.every)
            latents = next(other for other in pools if other.kind in LATENTS and other.name == pool.name)
            entries.append(Page(pool, _padded(latents, ENTRIES // pool.every * pool.bytes)))
            kept = next(other for other in pools if other.kind == "open" and other.name == pool.name)
            state = FP32.block_bytes * own.page * 2 * own.halves * pool.elements
            states.setdefault(pool.every, []).append(Page(kept, _padded(latents, state)))
    others = {pool.kind for pool in pools} - {*LATENTS, "compressed", "index", "open"}
    if others or not any(pool.kind == "index" for pool in pools):
        known = "in models of windows alone, some with entries over 4 tokens and an indexer"
        raise InputError(f"--engine vllm: it runs compressed entries {known}", "ideal knows others", "unsupported")
    found = [Kind(ENTRIES, None, tuple(entries))]
    found += [Kind(WINDOW, limit, tuple(pages)) for limit, pages in windows.items()]
    for every, pages in states.items():
        own = compressor(every)
        found.append(Kind(own.page, own.tokens, tuple(pages)))
    return found


def _padded(latents: Pool, size: int) -> int:
    """The bytes of a page of a layer with such latents. In DeepSeek's layout scales stand between their numbers."""
    align = ALIGNED if latents.bytes % latents.elements else ALIGNED_PLAIN
    return -(-size // align) * align
