"""Who allocates: the cache that an engine sets aside for a sequence, and how many tokens one pass of a prefill has.

ideal
    What the mathematics needs: every token's entries, of a window min(context, window); where tokens share entries,
    the complete ones, and room for the tokens of the one that is open.
vllm
    Pages of 16 tokens (vllm/config/cache.py, DEFAULT_BLOCK_SIZE), of 64 for latents, as their kernels want them
    (vllm/v1/attention/backends/mla). A window needs its last W − 1 tokens, those in flight, and a page more, as it may
    begin inside one; a chunk its own tokens and those in flight (vllm/v1/kv_cache_interface.py,
    max_memory_usage_bytes): two passes, as the next is scheduled while one runs (vllm/config/vllm.py,
    max_in_flight_tokens, of 0.33; versions before counted one). An indexer's keys are fp8 with an fp32 scale, whatever
    the cache's type (deepseek_v2.py, DeepseekV32IndexerCache). Where full and windowed layers mix, all pages have the
    same bytes and form groups of equally many layers, padded (vllm/v1/core/kv_cache_utils.py,
    unify_kv_cache_spec_page_size, _get_kv_cache_groups_uniform_page_size). So its start-up check asks for one request
    of max_model_len. A page of a recurrent layer is its state and the last tokens before its convolutions together
    (MambaSpec); where layers attend beside it, their pages take in as many tokens as that needs, a multiple of 16, of
    latents 128 (64 before 0.29), and its page is padded to theirs (vllm/platforms/interface.py,
    _align_hybrid_block_size). A sequence has one such page; where prefixes are cached, as they are by default since
    0.23 to 0.26, the last one beside the one that it fills, and since 0.33 a third, which Mamba-2 and some kernels of
    the others write within a pass (MambaSpec, num_prefill_checkpoint_blocks; counted for all); and one more for each
    token that is guessed. From there to 0.28 Mamba keeps a state for every page of the length (--mamba-cache-mode all,
    the default where a model has it), and a page is a multiple of its kernel's chunk. Compressed entries: packed.py.
llama.cpp
    One cache for all sequences (--kv-unified, its server's default), rounded up to 256 cells (src/llama-context.cpp).
    Windowed layers have a cache of their own, of a window a sequence and one micro-batch, rounded likewise
    (src/llama-kv-cache-iswa.cpp); a window that all layers share is not used (Mistral 7B v0.1, Phi-3). Latent attention
    keeps latent and rotary key, no V (pull request 19067); of MiniCPM3 keys and values. Recurrent layers have their
    states and the last tokens before their convolutions in fp32, whatever the cache's type, once for each sequence
    (src/llama-model.cpp, create_memory: recurrent_type_r, recurrent_type_s); RWKV's mixers what they read last, too
    (src/llama-hparams.cpp, n_embd_r, n_embd_s). Of compressed entries every sequence has cells of its own, and their
    compressors' states are fp32 (src/llama-kv-cache-dsv4.cpp).
sglang
    One pool of tokens for all requests, another for windows beside others: sglang.py.
transformers
    Exact lengths; of a window the last W − 1 tokens, as the newest is in flight, and of a chunk likewise
    (cache_utils.py of 5.24, DynamicSlidingWindowLayer). Since version 5 latent attention keeps the latent; before, the
    expanded keys and values: --mla-cache expanded. Before a convolution over K tokens it keeps the last K
    (LinearAttentionLayer).
"""

from __future__ import annotations

from math import lcm

from msgspec import Struct
from msgspec.structs import replace

from gptcalc.analysis.memory.packed import ENTRIES, compressor, packed
from gptcalc.analysis.memory.pools import RECURRENT, Kind, Pool
from gptcalc.analysis.memory.sglang import Pools
from gptcalc.architecture import Architecture, DeltaMixing, Engram, Ggml, MatrixMixing, TimeMixing, is_looped
from gptcalc.conventions import ALL, CacheForm, Engine
from gptcalc.dtypes import FP32
from gptcalc.errors import InputError

#: vLLM's block_size, and that of latent attention's kernels
PAGE = 16
LATENT_PAGE = 64
#: cells that llama.cpp rounds a context up to
CELLS = 256
#: llama.cpp's architectures with latents that it keeps as keys and values
EXPANDED: frozenset[Ggml] = frozenset({"minicpm3"})
#: tokens of one pass where neither --prefill-chunk nor a device says otherwise: vLLM's max_num_batched_tokens
#: (vllm/engine/arg_utils.py, get_batch_defaults, on a large card), llama.cpp's n_ubatch (common/common.h), SGLang's
#: chunked_prefill_size on one of 60 GB and more; transformers runs a prompt in one pass
CHUNKS: dict[Engine, int] = {"ideal": 8192, "vllm": 8192, "sglang": 8192, "llama.cpp": 512, "transformers": ALL}
#: engines with models of their own, which are not all that there are
SERVERS: frozenset[Engine] = frozenset({"vllm", "sglang", "llama.cpp"})
#: tokens in flight where no piece is given: what published logs show (Gemma 4 on cards of several sizes)
IN_FLIGHT = 8192
#: vLLM makes groups as large as the larger kind of layers where the smaller has at least this share of it
GROUP_RATIO = (3, 2)


class Paging(Struct, frozen=True):
    """What differs among versions of vLLM, and with how it is run; without one, as in 0.33."""

    passes: int = 2  # that are in flight at once
    states: int = 3  # pages that a recurrent layer has for a sequence
    latents: int = 128  # tokens of which a page of latents has a multiple, beside recurrent layers
    slots: bool = False  # whether a block has a place of its own for every size of page
    kept: int = 0  # where Mamba keeps a state at the end of every page: tokens of which a page has a multiple

    def of(self, pools: list[Pool]) -> Paging:
        """With what makes no difference to such a cache as in the newest version."""
        is_compressed = _is_compressed(pools)
        flies = is_compressed or [pool.limit for pool in pools] != [None] * len(pools)
        recurs = not RECURRENT.isdisjoint([pool.kind for pool in pools])
        return Paging(
            self.passes if flies else NEWEST.passes,
            self.states if recurs else NEWEST.states,
            self.latents if recurs else NEWEST.latents,
            is_compressed and self.slots,
            self.kept if recurs else NEWEST.kept,
        )


NEWEST = Paging()


class Held(Struct, frozen=True):
    """What is set aside in a pool: for one sequence, `times` over, or once for all sequences."""

    pool: Pool
    tokens: int
    bytes: int
    times: int = 1

    @property
    def total(self) -> int:
        return self.times * self.bytes


def chunk_of(engine: Engine, chunk: int | None) -> int:
    """Tokens of one pass of a prefill."""
    return CHUNKS[engine] if chunk is None else chunk


def in_flight(engine: Engine, chunk: int | None, passes: int = 2) -> int:
    """Tokens whose entries a window holds beside its own, as passes that are not done may still read them."""
    if engine != "vllm":
        return chunk_of(engine, chunk)
    return IN_FLIGHT if chunk is None else passes * chunk


def form_of(engine: Engine, architecture: Architecture, asked: CacheForm) -> CacheForm:
    """What an engine keeps of latents. InputError where it runs no such model: llama.cpp never ran decoders that attend
    to an image's states, vLLM no longer since 0.11 (vllm/model_executor/models/registry.py)."""
    if engine in SERVERS and architecture.encoded is not None:
        raise InputError(
            f"--engine {engine}: it runs no decoder that attends to another encoder's states",
            "ideal and transformers do",
            "unsupported",
        )
    return "expanded" if engine == "llama.cpp" and architecture.storage.gguf in EXPANDED else asked


def check_runs(engine: Engine, architecture: Architecture) -> None:
    """InputError where an engine has no model of this kind: of RWKV vLLM and SGLang none, llama.cpp 6 and 7
    (LLM_ARCH_RWKV6, LLM_ARCH_RWKV7), whose past is a matrix for each head."""
    if engine in SERVERS and is_looped(architecture):
        raise InputError(
            f"--engine {engine}: what it sets aside for layers that run several times is not known here",
            "ideal and transformers are",
            "unsupported",
        )
    mixers = architecture.mixers()
    if engine in SERVERS and any(isinstance(mixer, Engram) for mixer in mixers):
        raise InputError(
            f"--engine {engine}: what it sets aside for n-grams that are looked up is not known here",
            "ideal and transformers are",
            "unsupported",
        )
    refused = (TimeMixing,) if engine == "llama.cpp" else (TimeMixing, MatrixMixing, DeltaMixing)
    if engine in SERVERS and any(isinstance(mixer, refused) for mixer in mixers):
        which = "RWKV-4" if engine == "llama.cpp" else "RWKV"
        raise InputError(
            f"--engine {engine}: it runs no model whose mixers read the last token's input ({which})",
            "ideal and transformers do",
            "unsupported",
        )


def held(
    engine: Engine,
    pools: list[Pool],
    context: int,
    chunk: int | None = None,
    sequences: int = 1,
    paging: Paging = NEWEST,
) -> list[Held]:
    """What an engine sets aside for sequences of `context` tokens, pool by pool.

    chunk: tokens of one pass, ALL for a whole prompt, None for the engine's own; paging: of the version of vLLM.
    """
    is_compressed = _is_compressed(pools)
    _check_known(engine, pools, is_compressed)
    flying = in_flight(engine, chunk, paging.passes)
    if engine == "vllm" and is_compressed:
        return [replace(part, times=sequences) for part in _side_by_side(pools, context, flying, paging.slots)]
    if engine == "llama.cpp" and is_compressed:
        return [replace(part, times=sequences) for part in _streams(pools, context, flying)]
    if engine == "sglang":
        return _shared(pools, context, sequences)
    growing = [pool for pool in pools if pool.grows]
    constant = [] if len(growing) == len(pools) else [pool for pool in pools if not pool.grows]
    recurrent = _recurrent(pools) if constant and engine == "vllm" else []
    if growing and recurrent:
        found = [replace(part, times=sequences) for part in _hybrid(growing, recurrent, context, flying, paging)]
        constant = [pool for pool in constant if pool not in recurrent]
    elif engine == "llama.cpp" and sequences:
        found = [_unified(pool, growing, sequences, context, flying) for pool in growing]
    elif engine == "vllm" and _mixed(growing):
        found = [replace(part, times=sequences) for part in _paged(growing, context, flying)]
    else:
        found = [_plain(engine, pool, context, flying, sequences) for pool in growing]
    return found + [replace(_constant(engine, pool), times=sequences) for pool in constant]


def _check_known(engine: Engine, pools: list[Pool], is_compressed: bool) -> None:
    """InputError where it is not known what an engine sets aside for such a cache."""
    if engine == "ideal":
        return
    if is_compressed and engine == "transformers":
        raise InputError(
            f"--engine {engine}: what it sets aside for compressed entries is not known here",
            "ideal, vllm, sglang and llama.cpp are",
            "unsupported",
        )
    latents = [pool for pool in pools if pool.kind == "latent"]
    if engine != "transformers" and any(pool.limit for pool in latents):
        raise InputError(
            f"--engine {engine}: what it sets aside for latents in a window is not known here",
            "ideal and transformers are",
            "unsupported",
        )
    if is_compressed and latents:
        raise InputError(
            f"--engine {engine}: what it sets aside for an indexer's keys of blocks is not known here",
            "ideal is",
            "unsupported",
        )


def _shared(pools: list[Pool], context: int, sequences: int) -> list[Held]:
    """SGLang's tokens, which all requests share; states for each."""
    tokens = Pools(pools, context, sequences)
    found = []
    for pool in pools:
        if pool.grows:
            found.append(Held(pool, *tokens.grown(pool)))
        elif pool.kind == "open":
            found.append(Held(pool, 0, tokens.states(pool)))
        else:
            found.append(replace(_constant("sglang", pool), times=sequences))
    return found


def _is_compressed(pools: list[Pool]) -> bool:
    return max([pool.every for pool in pools], default=1) > 1


def _recurrent(pools: list[Pool]) -> list[Pool]:
    """Of recurrent layers, the states and what they keep before a convolution; attention may have one of its own."""
    attend = {pool.name for pool in pools if pool.grows} - {pool.name for pool in pools if pool.kind == "state"}
    return [pool for pool in pools if pool.kind in RECURRENT and pool.name not in attend]


def _constant(engine: Engine, pool: Pool) -> Held:
    """What doesn't grow, in the type and of the length that the engine keeps."""
    size = pool.bytes
    if pool.kind == "conv" and engine == "transformers":
        size = size // pool.taps * (pool.taps + 1)
    elif pool.kind in RECURRENT and engine == "llama.cpp":
        size = FP32.block_bytes * pool.elements
    return Held(pool, 0, pool.layers * size)


def _plain(engine: Engine, pool: Pool, context: int, chunk: int, sequences: int) -> Held:
    tokens = pool.tokens(context)
    if engine == "transformers" and pool.limit is not None:
        tokens = min(context, pool.limit - 1)
    elif engine == "vllm":
        page = LATENT_PAGE if pool.kind in ("latent", "index") else PAGE
        tokens = page * _pages(pool, context, chunk, page)
    return Held(pool, tokens, pool.layers * pool.bytes * (tokens // pool.every), sequences)


def _unified(pool: Pool, pools: list[Pool], sequences: int, context: int, chunk: int) -> Held:
    """llama.cpp's cells, which all sequences share."""
    cells = cells_of(sequences * context)
    if pool.limit is not None and any(other.limit is None for other in pools):
        cells = min(cells, cells_of(sequences * pool.limit + chunk))
    return Held(pool, cells, pool.layers * pool.bytes * cells)


def _streams(pools: list[Pool], context: int, chunk: int) -> list[Held]:
    """llama.cpp's cells of a model with compressed entries, of which each sequence has its own: of the window and one
    micro-batch, of the entries; and in fp32 what its compressors keep."""
    found = []
    for pool in pools:
        if pool.grows:
            cells = cells_of(-(-cells_of(context) // pool.every))
            if pool.limit is not None:
                cells = min(cells, cells_of(pool.limit + chunk))
            found.append(Held(pool, cells * pool.every, pool.layers * pool.bytes * cells))
        else:
            entries = [other for other in pools if other.name == pool.name and other.every > 1]
            size = sum(compressor(other.every).kept * 2 * other.elements for other in entries)
            found.append(Held(pool, 0, FP32.block_bytes * pool.layers * size))
    return found


def cells_of(tokens: int) -> int:
    """Cells that llama.cpp has for so many tokens."""
    return -(-tokens // CELLS) * CELLS


# --- vLLM -------------------------------------------------------------------------------------------------------------


def _pages(pool: Pool, context: int, chunk: int, block: int) -> int:
    """Pages of `block` tokens that one request needs in a layer."""
    if pool.limit is None:
        return -(-context // block)
    if pool.kind == "chunk":
        return -(-min(pool.limit + chunk, context) // block)
    return -(-min(pool.limit - 1 + chunk, context) // block) + 1


class Blocks(Struct, frozen=True):
    """How vLLM's cache is cut: a block's tokens (of a layer with the largest pages) and its bytes, over all layers."""

    tokens: int
    bytes: int


def blocks(engine: Engine, pools: list[Pool], slots: bool = False) -> Blocks | None:
    """What the cache is cut into; None where an engine has no blocks, or those of recurrent layers are among them."""
    if engine == "vllm" and _is_compressed(pools):
        return Blocks(ENTRIES, packed(pools, slots).block)
    growing = [pool for pool in pools if pool.grows]
    if engine != "vllm" or not growing or any(pool.kind in ("state", "conv") for pool in pools):
        return None
    if not _mixed(growing):
        page = LATENT_PAGE if any(pool.kind in ("latent", "index") for pool in growing) else PAGE
        return Blocks(page, page * sum(pool.layers * pool.bytes for pool in growing))
    layers: dict[tuple[int | None, int], int] = {}
    for pool in growing:
        layers[pool.limit, pool.bytes] = layers.get((pool.limit, pool.bytes), 0) + pool.layers
    return Blocks(PAGE, page_bytes(growing) * _group(list(layers.values())))


def _group(layers: list[int]) -> int:
    """Layers of a group, where there are so many of each kind."""
    least, most = min(layers), max(layers)
    return most if most * GROUP_RATIO[1] < least * GROUP_RATIO[0] else least


def _mixed(pools: list[Pool]) -> bool:
    """Whether windowed layers and others share the pages."""
    return any(pool.limit for pool in pools) and len({(pool.limit, pool.bytes) for pool in pools}) > 1


def page_bytes(pools: list[Pool]) -> int:
    """The size of the pages that all layers share: that of the largest."""
    return PAGE * max(pool.bytes for pool in pools)


def _paged(pools: list[Pool], context: int, chunk: int) -> list[Held]:
    page = page_bytes(pools)
    layers: dict[tuple[int | None, int], int] = {}
    for pool in pools:
        layers[pool.limit, pool.bytes] = layers.get((pool.limit, pool.bytes), 0) + pool.layers
    found = []
    pages: dict[tuple[int | None, int], int] = {}
    for pool in pools:
        own = PAGE * pool.bytes
        block = PAGE * (page // own) if page % own == 0 else PAGE
        n = pages[pool.limit, pool.bytes] = _pages(pool, context, chunk, block)
        found.append(Held(pool, n * block, pool.layers * n * page))
    return found + _padding([(n, pages[key] * page) for key, n in layers.items()])


def _side_by_side(pools: list[Pool], context: int, flying: int, slots: bool) -> list[Held]:
    """Pages of several sizes in blocks: of every group as many blocks as it needs pages, and what is left of each."""
    cut = packed(pools, slots)
    sizes = dict.fromkeys(((pool.name, pool.kind) for pool in pools), 0)
    tokens: dict[tuple[str, Kind], int] = {}
    total = 0
    for kind, groups in cut.groups:
        n = kind.needed(context, flying)
        total += n * groups * cut.block
        for page in kind.pages:
            key = page.pool.name, page.pool.kind
            sizes[key] += page.pool.layers * n * page.bytes
            tokens[key] = n * kind.tokens if page.pool.grows else 0
    found = [Held(pool, tokens[key], sizes[key]) for pool in pools if (key := (pool.name, pool.kind)) in tokens]
    rest = total - sum(part.bytes for part in found)
    return [*found, Held(Pool("rest of blocks", 1, "padding", None, 0, 0), 0, rest)]


def _padding(layers: list[tuple[int, int]]) -> list[Held]:
    """The layers that fill up groups of equally many: of each kind so many layers, and the bytes of one."""
    group = _group([n for n, _ in layers])
    count, size = sum(-n % group for n, _ in layers), sum((-n % group) * one for n, one in layers)
    return [Held(Pool("padding layers", count, "padding", None, 0, 0), 0, size)] if size else []


def _hybrid(growing: list[Pool], recurrent: list[Pool], context: int, chunk: int, paging: Paging) -> list[Held]:
    """Attention beside recurrent layers: all pages are as large as a state, or as the attention's that hold one."""
    sizes = {pool.bytes for pool in growing}
    if len(sizes) > 1:
        raise InputError(
            "--engine vllm: pages of several sizes beside recurrent states are not known here",
            "only ideal is",
            "unsupported",
        )
    (token,) = sizes
    states: dict[str, int] = {}
    for pool in recurrent:
        states[pool.name] = states.get(pool.name, 0) + pool.bytes
    least = paging.latents if growing[0].kind in ("latent", "index") else PAGE
    least = lcm(least, paging.kept or 1)
    block = least * -(-max(states.values()) // (least * token))
    page = block * token
    found = []
    layers: dict[int | None, int] = {}
    pages: dict[int | None, int] = {}
    for pool in growing:
        n = pages[pool.limit] = _pages(pool, context, chunk, block)
        layers[pool.limit] = layers.get(pool.limit, 0) + pool.layers
        found.append(Held(pool, n * block, pool.layers * n * page))
    kinds: dict[int, int] = {}
    times = paging.states + (-(-context // block) if paging.kept else 0)
    for pool in recurrent:
        first = next(other for other in recurrent if other.name == pool.name) is pool
        rest = page - states[pool.name] if first else 0
        found.append(Held(pool, 0, times * pool.layers * (pool.bytes + rest)))
        if first:
            kinds[states[pool.name]] = kinds.get(states[pool.name], 0) + pool.layers
    every = [(n, pages[limit] * page) for limit, n in layers.items()] + [(n, times * page) for n in kinds.values()]
    return found + _padding(every)
