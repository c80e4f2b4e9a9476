"""What llama.cpp holds of a pass on each of its devices."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from copy import copy

from gptcalc.analysis.memory.cache import Types
from gptcalc.analysis.memory.engines import Held, cells_of, chunk_of, form_of
from gptcalc.analysis.memory.ggml import COPIES, Graph, Work
from gptcalc.analysis.memory.mixes import is_fused
from gptcalc.architecture import IN_ONE, Q_GATE, Architecture, Ggml
from gptcalc.conventions import InferenceRun
from gptcalc.dtypes import BF16, FP32
from gptcalc.equations import equations

__all__ = ["COPIES", "Buffers"]


#: architectures whose graph adds the feed-forward layer's output first, so that the attention's projection beside it is
#: made behind it (src/models/)
WAITS: frozenset[Ggml] = frozenset({"cohere2", "command-r", "falcon", "gptneox"})


class Buffers:
    """Compute buffers as a function of the cells that are set aside."""

    def __init__(
        self,
        architecture: Architecture,
        how: InferenceRun,
        kept: Types,
        counts: Sequence[Mapping[str, int]],
        copied: int,
        copies: int,
    ) -> None:
        """counts: how often each stage runs on a device; copied: the largest matrix on the host, in bytes: with one,
        the first device multiplies for layers that are on none; copies: passes in flight."""
        form = form_of("llama.cpp", architecture, how.mla_cache)
        model = equations(architecture, "absorbed" if form == "latent" else "expanded", form)
        self.how, self.copies, self.copied = how, copies, copied
        self.converted = any(kind.block_bytes != BF16.block_bytes for kind in (kept.k, kept.v))
        self.graphs: list[Graph] = []
        within, waits = _one_with_queries(architecture), architecture.storage.gguf in WAITS
        for number, own in enumerate(counts):
            helps = copied > 0 and number == 0
            stages = [(stage, stage.times if helps else own.get(stage.name, 0)) for stage in model.layers]
            logits = architecture.v if number == len(counts) - 1 else 0
            streams = 2 if number and copies > 1 else 1  # the stream, and its norm
            parts = [(stage, times) for stage, times in stages if times]
            self.graphs.append(Graph(parts, architecture.d, logits, copied * helps, streams, within, waits))

    def copying(self, copied: int) -> Buffers | None:
        """The same where the largest matrix on the host has so many bytes; None where there is none now, or was none,
        so that the first device multiplies for other layers."""
        if (copied > 0) != (self.copied > 0):
            return None
        other = copy(self)
        other.copied = copied
        other.graphs = [graph.copying(copied if graph.copied else 0) for graph in self.graphs]
        return other

    def work(self, held: Sequence[Held], sequences: int, context: int) -> Work:
        """The pass for which it makes room."""
        full = [part.tokens for part in held if part.pool.limit is None]
        windows = [part.tokens for part in held if part.pool.limit is not None]
        tokens = min(chunk_of("llama.cpp", self.how.prefill_chunk), cells_of(max(sequences * context, 1)))
        flash = self.how.flash_attn == "on"
        return Work(
            tokens=tokens,
            sequences=min(sequences, tokens),
            rows=tokens if self.how.logits == "all" else min(sequences, tokens),
            full=max(full, default=0),
            windows=max(windows, default=0),
            flash=flash,
            converted=flash and self.converted,
        )

    def bytes(self, number: int, held: Sequence[Held], sequences: int, context: int) -> int:
        return self.graphs[number].bytes(self.work(held, sequences, context), self.copies)

    def pieces(self, number: int, work: Work) -> dict[str, int]:
        """The finer parts of a buffer, as far as they have a name."""
        return {
            "logits": FP32.block_bytes * self.graphs[number].v * work.rows,
            "host's matrix": self.graphs[number].copied,
        }

    def described(self, number: int, work: Work) -> str:
        """What is estimated, and how well."""
        scores = "flash attention" if work.flash else "whole scores"
        logits = f"logits of {work.rows:,} (--logits all: of every token, as programs other than its server)"
        margin = self.graphs[number].margin
        return f"llama.cpp's compute buffer with {scores}, {work.tokens:,} tokens, {logits}; to {margin} %"

    def margin(self, activations: int) -> int:
        """By how much a buffer may be larger."""
        percent = max(graph.margin for graph in self.graphs)
        return activations * percent // (100 - percent)


def _one_with_queries(architecture: Architecture) -> frozenset[str]:
    """The matrices that are one with the queries' in its files."""
    if is_fused(architecture.storage):
        return frozenset({"attn.k", "attn.v"})
    return frozenset({"attn.gate"} if Q_GATE in IN_ONE.get(architecture.storage.gguf, ()) else ())
