"""What vLLM takes of a device before it has a cache: the peak of a profile run, its sampler, CUDA graphs, the rest.

Estimates, as its generations allocate; versions are those in which a change was seen. What takes more counts, as any of
them may serve a model, unless --engine-version says which.

first runner (0.8 to 0.28, and where the second lacks a feature)
    One pass in flight, experts in mxfp4 padded to tiles of 256 inputs (gpt-oss loads 13.47 and 64.38 GiB, 0.11).
    A pass over max_num_batched_tokens, then the sampler over max_num_seqs rows of logits (gpu_model_runner.py,
    _dummy_sampler_run). To 0.16 it sorts: copies in 16 and 32 bits, sorted values and indices, probabilities and sums
    for top-k and top-p. Nine runs of 0.11 on an H100 (llm-d-benchmark, empirical-vllm-memory-results.md) are
    38 · rows · v + tokens · d · 2 bytes + 64 MiB to 0.03 GiB, and 0.14 GiB outside of torch, 0.55 on two devices.
    From 0.17 it masks in place (vllm#33538, topk_topp_triton.py; FlashInfer needs as much): 14, the logits in 16 and
    32 bits, and two copies more; and the kernel keeps a row for every multiprocessor. From 0.21 its graphs are set
    aside before the cache is, too.
second runner (0.29 and later)
    Two passes in flight, as the next is scheduled while one runs.
    The largest of: compiling the embedding (a random table and two outputs, alone on a device), the forward pass, and
    the logits of max_num_seqs rows. Then counts and masks of every row of the sampler, the graphs' estimate, 0.16 to
    0.39 GiB of libraries, and in half of the starts a segment as large as the table that the allocator keeps. 28 starts
    of 0.29 and 0.30 on six kinds of cards are met to 0.26 GiB (apron, kv-budget-residuals.md).
    From 0.33 the sampler is part of the profile (vllm#57926: 22,512 tokens less of Qwen2.5 0.5B on an L4): 14 again.
forward pass
    Compiled pieces write new tensors: gate and up together, what they make, the attention's output, and two of the
    stream (Llama 3.1 8B over 29,000 tokens: 2.99 GiB as measured, vllm#10517; Gemma 4 31B: 1.48 GiB, measured 1.49).
    Experts work in two buffers for every token and chosen expert (modular_kernel.py); latent attention makes keys and
    values of up to 64 Ki tokens anew (mla_attention.py). Over compressed entries queries and what heads read are padded
    to 64 or 128 heads, and there is room for the entries and latents of four sequences in 16 bits, for the logits of an
    indexer and for what it chose (vllm/models/deepseek_v4/nvidia/flashmla.py, vllm/envs.py).
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Literal, TypeVar

from msgspec import Struct
from msgspec.structs import replace

from gptcalc.analysis.memory.engines import LATENT_PAGE, NEWEST, Paging
from gptcalc.analysis.memory.pools import CONSTANT, Pool
from gptcalc.analysis.memory.sharding import Layout
from gptcalc.analysis.memory.twin import twin
from gptcalc.architecture import (
    ACTIVATIONS,
    Architecture,
    Attention,
    CompressedAttention,
    Experts,
    LatentAttention,
    Mamba,
    Mamba2,
    Mlp,
    rotated,
)
from gptcalc.conventions import InferenceRun
from gptcalc.dtypes import FP32
from gptcalc.errors import InputError, printable

MIB, GIB = 2**20, 2**30


class Tier(Struct, frozen=True):
    """What vLLM does at once on a card (vllm/engine/arg_utils.py, get_batch_defaults): tokens of a pass, sequences."""

    tokens: int
    sequences: int


class Generation(Struct, frozen=True):
    """Versions of vLLM that take the same at their start."""

    since: tuple[int, int]
    runner: Literal["first", "second"]
    sampler: int  # bytes of the profile run for each row and entry of the vocabulary
    keeps_rows: bool = False  # whether the sampler keeps a row for every multiprocessor
    graphs: bool = True  # whether they are set aside before the cache is
    pads: bool = False  # whether matrices in mxfp4 are padded
    states: int = 1  # pages that a recurrent layer has for a sequence
    keeps_states: bool = False  # whether Mamba has one for every page of the length in their place
    starts: int = 0  # that were measured

    @property
    def passes(self) -> int:
        """That are in flight at once."""
        return 1 if self.runner == "first" else 2

    def paging(self, stages: int = 1, guessed: int = 0, chunk: int = 0) -> Paging:
        """With so many stages of a pipeline, tokens that are guessed at once, and tokens of a chunk of Mamba's."""
        first, kept = self.runner == "first", chunk if self.keeps_states else 0
        states = guessed + (0 if kept else self.states)
        return Paging(self.passes + stages - 1, states, LATENT_PAGE if first else NEWEST.latents, first, kept)

    def may_write_more(self, architecture: Architecture, pools: Sequence[Pool]) -> bool:
        """Whether it hangs on the kernel if a recurrent layer has a page of states more: not Mamba-2's, which does."""
        kinds = {pool.kind for pool in pools}
        mamba = any(isinstance(mixer, Mamba2) for mixer in architecture.mixers())
        return self.states >= NEWEST.states and "state" in kinds and not kinds <= CONSTANT and not mamba

    @property
    def tiles(self) -> dict[str, int]:
        """What a matrix's inputs are padded to, by the format."""
        return {"mxfp4": 256} if self.pads else {}

    @property
    def versions(self) -> str:
        """In words."""
        return named([self])

    @property
    def met(self) -> str:
        """How well the estimate is known, in words."""
        return f"met to 0.3 GiB in {self.starts} starts" if self.starts else "by its code, no start measured"


GENERATIONS = (
    Generation((0, 8), "first", 38, graphs=False, pads=True, starts=9),
    Generation((0, 17), "first", 14, keeps_rows=True, graphs=False, pads=True),
    Generation((0, 21), "first", 14, keeps_rows=True),
    Generation((0, 23), "first", 14, keeps_rows=True, states=2, keeps_states=True),
    Generation((0, 29), "second", 2, states=2, starts=28),
    Generation((0, 33), "second", 14, states=3),
)


def named(generations: Sequence[Generation]) -> str:
    """The versions of some generations, in words: 0.8 to 0.20 or 0.29 and later."""
    words: list[str] = []
    first = None
    for at, one in enumerate(GENERATIONS):
        if one not in generations:
            continue
        first = first or one
        last = at + 1 == len(GENERATIONS)
        if last or GENERATIONS[at + 1] not in generations:
            end = " and later" if last else f" to 0.{GENERATIONS[at + 1].since[1] - 1}"
            words.append(f"0.{first.since[1]}{end}")
            first = None
    return " or ".join(words)


def generation(version: str) -> Generation:
    """That of a version, as 0.33 or 0.33.1. InputError where it is none, or older than what is known."""
    match = re.fullmatch(r"v?([0-9]{1,3})\.([0-9]{1,3})(\.\w+)*((a|b|rc)[0-9]+)?", version)
    number = (int(match[1]), int(match[2])) if match else (0, 0)
    known = [found for found in GENERATIONS if found.since <= number]
    if not known:
        problem = f"not a version of vLLM from 0.{GENERATIONS[0].since[1]}"
        raise InputError(f"--engine-version {printable(version)}: {problem}", "write 0.33", "usage")
    return known[-1]


LARGEST, LARGE, SMALL = Tier(16384, 1024), Tier(8192, 1024), Tier(2048, 256)
#: cards of 70 GiB and more that are taken for small ones
SLOW = ("a100", "gb10")

H = TypeVar("H", bound=InferenceRun)


def tier(memory: int, name: str = "") -> Tier:
    """The tier of a card with so much memory, serving (offline, LLM(), a pass is twice or four times as long)."""
    if memory >= 160 * GIB:
        return LARGEST
    return LARGE if memory >= 70 * GIB and not any(slow in name.lower() for slow in SLOW) else SMALL


def settled(how: H, memory: int, name: str = "") -> H:
    """The same run with vLLM's own choices for this card where nothing else is said."""
    own = tier(memory, name)
    return replace(
        how,
        prefill_chunk=own.tokens if how.prefill_chunk is None else how.prefill_chunk,
        max_num_seqs=own.sequences if how.max_num_seqs is None else how.max_num_seqs,
    )


class Live(Struct, frozen=True):
    """Elements at the peak of a forward pass: for each of its tokens, and for each token whose keys are made anew."""

    token: int
    anew: int


class Profile:
    """What vLLM's profile run finds on one device, as a function of the tokens of a pass and max_model_len."""

    def __init__(
        self, architecture: Architecture, parallel: Layout, generation: Generation, rows: int, width: int
    ) -> None:
        self.architecture = architecture
        self.rows = rows  # max_num_seqs
        self.width = width  # bytes of an activation
        self.alone = parallel.tp == 1
        self.live = live(architecture, parallel)
        self.compressed = compressed(architecture)
        self.stream = architecture.d * width
        self.v = -(-architecture.v // ROWS) * ROWS
        self.table = self.v * self.stream if self.alone else 0
        self.rotations = rotation_bytes(architecture, width)
        self._set(generation)

    def of(self, generation: Generation) -> Profile:
        """The same of another generation."""
        other = twin(self)
        other._set(generation)
        return other

    def _set(self, generation: Generation) -> None:
        self.generation = generation
        self._least: dict[int, int] = {}
        architecture, rows = self.architecture, self.rows
        self.parts = {"rotation tables": self.rotations}
        if generation.graphs:
            self.parts["graphs"] = graphs_bytes(architecture, rows)
        if generation.keeps_rows:
            self.parts["sampler"] = min(rows, MULTIPROCESSORS) * architecture.v * FP32.block_bytes
        if generation.runner == "first":
            self.parts["libraries"] = LIBRARIES_ALONE if self.alone else LIBRARIES
        else:
            self.parts |= {
                "libraries": LIBRARIES_LARGE if rows > SMALL.sequences else LIBRARIES_SMALL,
                "sampler": rows * (architecture.v + 2 * -(-architecture.v // 32)) * 4,
                "kept segment": self.table,
            }
        self.kept = sum(self.parts.values())

    @property
    def margin(self) -> int:
        """By how much the estimate may be missed."""
        return MARGIN_COMPRESSED if self.compressed else MARGIN

    @property
    def met(self) -> str:
        """How well the estimate is known, in words."""
        if self.compressed:
            return f"over compressed entries one start is reported, which took {MARGIN_COMPRESSED / GIB:.1f} GiB more"
        return self.generation.met

    def peak(self, tokens: int, context: int) -> int:
        """Bytes at the peak of the profile run."""
        return max(self.forward(tokens, context), self.least(tokens))

    def forward(self, tokens: int, context: int) -> int:
        """Bytes at the peak of its layers, of all generations alike."""
        anew = min(max(8 * context, 4 * self.rows * LATENT_BLOCK), MADE_ANEW)
        return self.width * (tokens * self.live.token + anew * self.live.anew) + self._entries(tokens, context)

    def least(self, tokens: int) -> int:
        """Bytes at the peak of all else: the logits and the sampler, or the table as it is looked up."""
        if tokens not in self._least:
            self._least[tokens] = self._beside(tokens)
        return self._least[tokens]

    def _beside(self, tokens: int) -> int:
        stream, rows = tokens * self.stream, min(self.rows, tokens)
        sampler = self.generation.sampler * rows * self.v + stream
        if self.generation.runner == "first":
            return sampler + SLACK
        logits = (1 if self.alone else 3) * rows * self.v * self.width + stream
        return max(logits, sampler, self.table + 2 * stream if self.alone else 0)

    def _entries(self, tokens: int, context: int) -> int:
        """Room for what attention over compressed entries gathers, and for what its indexer finds."""
        size = 0
        for mixer in self.compressed:
            c = mixer.compress
            if c is not None:
                latents = GATHERED * (-(-context // c.every) + mixer.window + tokens) * mixer.d_head * self.width
                chosen = 0 if c.index is None else -(-(c.index.top_k + mixer.window) // ROWS_CHOSEN) * ROWS_CHOSEN
                size = max(size, latents + tokens * chosen * 4 + (INDEX_LOGITS if chosen else 0))
        return size


#: sequences whose entries are gathered at once; what the number of chosen ones is padded to; bytes of logits
GATHERED, ROWS_CHOSEN, INDEX_LOGITS = 4, 128, 512 * MIB
#: heads that kernels over compressed entries know
HEADS = (64, 128)
#: rows of the output matrix are padded to a multiple of this (vocab_parallel_embedding.py)
ROWS = 64
#: what the first runner's pass leaves beside its sampler
SLACK = 64 * MIB
#: the most that a card has
MULTIPROCESSORS = 192
#: outside of torch, the first runner: on one device, with a communicator
LIBRARIES_ALONE, LIBRARIES = 144 * MIB, 576 * MIB
#: the same, the second runner: on small cards, on large ones (the largest measured)
LIBRARIES_SMALL, LIBRARIES_LARGE = 164 * MIB, 400 * MIB
#: what was measured lies within this of the estimate; over compressed entries, of which one start is reported: 5.44 GiB
#: left for the cache (vllm#44376) where 10.6 are estimated
MARGIN, MARGIN_COMPRESSED = 307 * MIB, 5280 * MIB


def live(architecture: Architecture, parallel: Layout) -> Live:
    """What a forward pass has at its peak."""
    attention = stream = dense = experts = anew = 0
    streams = 1 if architecture.streams is None else architecture.streams.n
    for mixer in architecture.mixers():
        match mixer:
            case Attention():
                attention, stream = max(attention, _part(mixer.n_heads, parallel.tp) * mixer.d_v), max(stream, 2)
            case LatentAttention():
                heads, head = _part(mixer.n_heads, parallel.tp), max(mixer.d_nope + mixer.d_rope, mixer.d_v)
                attention, stream = max(attention, 5 * heads * head + 2 * mixer.kv_rank), 7
                anew = max(anew, heads * (mixer.d_nope + mixer.d_v))
            case CompressedAttention():
                heads = next((n for n in HEADS if n >= mixer.n_heads // parallel.tp), mixer.n_heads)
                attention, stream = max(attention, 2 * heads * mixer.d_head + mixer.q_rank), max(stream, 2 * streams)
            case Mlp():
                dense = max(dense, _written(mixer.activation, _part(mixer.d_ff, parallel.tp)))
            case Experts():
                experts = max(experts, _workspace(architecture.d, mixer, parallel))
            case _:
                pass
    return Live(attention + stream * architecture.d + (experts or (0 if anew else dense)), anew)


#: tokens of a chunk of Mamba's first kernel, which knows none (vllm/config/model.py, get_mamba_chunk_size)
PLAIN_CHUNK = 2048


def mamba_chunk(architecture: Architecture) -> int:
    """Tokens of a chunk of Mamba's kernel; 0 where another mixer recurs, or none."""
    chunks = set()
    for mixer in architecture.mixers():
        match mixer:
            case Mamba2(chunk=chunk):
                chunks.add(chunk)
            case Mamba():
                chunks.add(PLAIN_CHUNK)
    return max(chunks, default=0)


def compressed(architecture: Architecture) -> list[CompressedAttention]:
    """The kinds of attention over compressed entries."""
    mixers = architecture.mixers()
    return [mixer for mixer in mixers if isinstance(mixer, CompressedAttention)]


#: latent attention's page in the profile run, and the most tokens that are made anew
LATENT_BLOCK, MADE_ANEW = 64, 2**16


def _part(n: int, devices: int) -> int:
    """The largest of so many parts of what an engine pads rather than refuses."""
    return -(-n // devices)


def _written(activation: str, d_ff: int) -> int:
    """What goes into an activation, and its new result."""
    return (3 if ACTIVATIONS[activation].gated else 2) * d_ff


def _workspace(d: int, mixer: Experts, parallel: Layout) -> int:
    """Two buffers for every chosen expert of a token: what the first product makes, what is left of it or comes out."""
    d_ff = mixer.d_ff // parallel.expert_tp
    into = 2 * d_ff if ACTIVATIONS[mixer.activation].gated else d_ff
    return mixer.top_k * (max(d_ff, d) + max(into, d))


def rotation_bytes(architecture: Architecture, width: int) -> int:
    """Tables of cosines and sines for every position, one for every kind of rotation (rotary_embedding/base.py)."""
    kinds = set()
    for mixer in architecture.mixers():
        if isinstance(mixer, (Attention, LatentAttention)) and mixer.rope is not None:
            channels = mixer.d_rope if isinstance(mixer, LatentAttention) else rotated(mixer.rope, mixer.d_head)
            kinds.add((mixer.rope, channels))
    return width * architecture.c * sum(channels for _, channels in kinds)


#: bytes of a graph's layer, the most that was measured: on small cards, on large ones; with latent attention
GRAPH_SMALL, GRAPH_LARGE = 404 * 2**10, 704 * 2**10
GRAPH_LATENT_SMALL, GRAPH_LATENT_LARGE = 644 * 2**10, 1422 * 2**10


def graphs_bytes(architecture: Architecture, sequences: int) -> int:
    """vLLM's own estimate of its CUDA graphs: one for each captured batch up to max_num_seqs."""
    latent = any(isinstance(m, LatentAttention) for m in architecture.mixers())
    if sequences > SMALL.sequences:
        each = GRAPH_LATENT_LARGE if latent else GRAPH_LARGE
    else:
        each = GRAPH_LATENT_SMALL if latent else GRAPH_SMALL
    return architecture.n_layers * captured(sequences) * each


def captured(sequences: int) -> int:
    """Batches that get a graph: 1, 2, 4, in eights below 256, in sixteens up to 512 (config/vllm.py)."""
    most = min(sequences, 512)
    return sum(n <= most for n in (1, 2, 4)) + min(most, 255) // 8 + max((most - 256) // 16 + 1, 0)
