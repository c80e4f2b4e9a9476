"""One row a model: the figures that `compare`, `diff` and `presets` choose from."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import cached_property
from typing import TYPE_CHECKING, Any

from msgspec import Struct
from msgspec.structs import replace

from gptcalc.analysis.flops import Flops, counted
from gptcalc.analysis.memory.cache import KVCache, cached
from gptcalc.analysis.memory.room import most
from gptcalc.analysis.params import Params, params
from gptcalc.architecture import Architecture
from gptcalc.conventions import CacheRun, DiffRun, FlopsRun, InferenceRun, possible
from gptcalc.document.keys import DEFAULT_LAYERS
from gptcalc.errors import Impossible, InputError
from gptcalc.report import features
from gptcalc.report.table import Column, Kind

if TYPE_CHECKING:
    from gptcalc.analysis.memory.inference import Inference
    from gptcalc.analysis.memory.result import Device


class Facts:
    """A model and what is computed about it, each analysis once and only when asked for. `known`: figures by their
    keys that need not be computed again (report.index)."""

    def __init__(
        self,
        architecture: Architecture,
        document: Mapping[str, Any],
        how: DiffRun,
        budget: int | None = None,
        devices: int = 1,
    ) -> None:
        self._architecture = architecture
        self._document = document
        self.known: Mapping[str, Any] = {}
        self.how = how
        self.budget = budget  # of one device
        self.devices = devices  # tensor parallel

    @property
    def architecture(self) -> Architecture:
        return self._architecture

    @property
    def document(self) -> Mapping[str, Any]:
        return self._document

    @cached_property
    def params(self) -> Params:
        return params(self.architecture)

    @cached_property
    def kv(self) -> KVCache:
        return cached(self.architecture, self.how.to(CacheRun))

    @cached_property
    def prefill(self) -> Flops:
        return counted(self.architecture, self.how.to(FlopsRun))

    @cached_property
    def decode(self) -> Flops | None:
        """None where no tokens come one by one."""
        if not self.architecture.continues:
            return None
        return counted(self.architecture, self.how.to(FlopsRun, phase="decode"))

    @cached_property
    def inference(self) -> Inference:
        from gptcalc.analysis.memory.inference import Inference  # only columns of memory need it

        try:
            return Inference(self.architecture, self.how.to(InferenceRun, tp=self.devices))
        except InputError as error:  # heads that so many devices don't divide
            raise Impossible(error.message, error.hint, error.kind) from None

    @cached_property
    def device(self) -> Device:
        """What one device holds."""
        return self.inference.fullest(self.how.batch, self.how.length(self.architecture))[1]

    @property
    def headroom(self) -> int | None:
        return None if self.budget is None else self.budget - self.device.total

    @property
    def fits(self) -> bool | None:
        return None if self.headroom is None else self.headroom >= 0

    @property
    def max_context(self) -> int | None:
        budget = self.budget
        if budget is None:
            return None
        return possible(most(lambda n: self.inference.needed(self.how.batch, n), budget), self.architecture)

    @property
    def max_batch(self) -> int | None:
        budget, length = self.budget, self.how.length(self.architecture)
        return None if budget is None else most(lambda n: self.inference.needed(n, length), budget)

    def sizes(self, name: str) -> str | None:
        """The value of a sublayer's field, or all the values that it takes in different layers."""
        values = dict.fromkeys(getattr(mixer, name, None) for mixer in self.architecture.mixers())
        return "/".join(str(value) for value in values if value is not None) or None

    @cached_property
    def attention(self) -> str | None:
        """MHA, GQA, MQA, MLA or CSA; all of them where layers differ."""
        forms = filter(None, map(features.attention, self.architecture.mixers()))
        return "/".join(dict.fromkeys(form.upper() for form in forms)) or None


class Figure(Struct, frozen=True):
    title: str
    kind: Kind
    value: Callable[[Facts], Any]
    meaning: str = ""  # where the title doesn't say it
    of_run: bool = False  # whether it hangs on how the model is run


OF_RUN: dict[str, Figure] = {
    "context": Figure("context", "number", lambda f: f.kv.context, "tokens that the figures of the cache are for"),
    "kv_bytes": Figure("cache", "bytes", lambda f: f.kv.bytes, "of the cache of --batch sequences at --context"),
    "kv_bytes_per_token": Figure(
        "cache per token", "bytes", lambda f: f.kv.bytes_per_token, "what a further token adds while no window is full"
    ),
    "kv_full_bytes": Figure(
        "cache at full length", "bytes", lambda f: f.kv.full_bytes, "if every layer kept the whole length"
    ),
    "weights_bytes": Figure("weights", "bytes", lambda f: f.device.weights, "of the weights on one device"),
    "needed_bytes": Figure("needed", "bytes", lambda f: f.device.total, "what a device must hold"),
    "headroom_bytes": Figure("left", "bytes", lambda f: f.headroom, "what is left of the budget"),
    "fits": Figure("fits", "text", lambda f: f.fits, "whether it fits the budget"),
    "max_batch": Figure("largest batch", "number", lambda f: f.max_batch, "the most sequences of --context that fit"),
    "max_context": Figure(
        "longest context", "number", lambda f: f.max_context, "the longest --batch sequences that fit"
    ),
    "prefill_flops": Figure("prefill", "flops", lambda f: f.prefill.total, "of a prompt of --context tokens"),
    "decode_flops": Figure(
        "decode step", "flops", lambda f: f.decode and f.decode.total, "of the last token of --context"
    ),
}

#: what only a budget gives
OF_BUDGET = ("headroom_bytes", "fits", "max_batch", "max_context")

FIGURES: dict[str, Figure] = {
    "model": Figure("model", "text", lambda f: f.architecture.name),
    "family": Figure("family", "text", lambda f: f.document.get("family")),
    "released": Figure("released", "date", lambda f: f.document.get("released")),
    "total": Figure("parameters", "count", lambda f: f.params.total, "parameters of the main model"),
    "active": Figure("active", "count", lambda f: f.params.active, "parameters that one token uses"),
    "embedding": Figure(
        "embedding", "count", lambda f: f.params.embedding, "parameters of the tables of tokens, positions and types"
    ),
    "active_mean": Figure(
        "active on average", "count", lambda f: f.params.active_mean, "on average, where some experts have no weights"
    ),
    "without_tables": Figure(
        "without tables",
        "count",
        lambda f: f.params.without_tables,
        "neither token tables nor an output matrix of its own, as papers and cards count",
    ),
    "non_embedding": Figure("non-embedding", "count", lambda f: f.params.non_embedding, "total without the embedding"),
    "mtp": Figure("MTP", "count", lambda f: f.params.mtp, "parameters of multi-token-prediction modules"),
    "n_layers": Figure("layers", "number", lambda f: f.architecture.n_layers),
    "d": Figure("d", "number", lambda f: f.architecture.d, "channels of the residual stream"),
    "v": Figure("v", "number", lambda f: f.architecture.v, "rows of the token table"),
    "c": Figure("c", "number", lambda f: f.architecture.c, "tokens that the model is made for"),
    "attention": Figure(
        "attention", "text", lambda f: f.attention, "MHA, GQA, MQA, MLA or CSA; all of them where layers differ"
    ),
    "n_heads": Figure("heads", "text", lambda f: f.sizes("n_heads")),
    "n_kv_heads": Figure("KV heads", "text", lambda f: f.sizes("n_kv_heads")),
    "d_head": Figure("d_head", "text", lambda f: f.sizes("d_head")),
    "d_ff": Figure("d_ff", "text", lambda f: f.sizes("d_ff")),
    "n_experts": Figure("experts", "text", lambda f: f.sizes("n_experts")),
    "top_k": Figure("top_k", "text", lambda f: f.sizes("top_k")),
    "tying": Figure("tied", "text", lambda f: f.params.tying, "whether the output matrix is the token table"),
    "layers": Figure("layers", "text", lambda f: f.document.get("layers", DEFAULT_LAYERS), "the layers' expression"),
    "features": Figure(
        "features", "text", lambda f: " ".join(features.of(f.architecture)), "what is special, as --feature names it"
    ),
    **{key: replace(figure, of_run=True) for key, figure in OF_RUN.items()},
}


#: what compare shows
DEFAULT = ("model", "total", "active", "n_layers", "d", "attention", "context", "kv_bytes", "decode_flops")


def chosen(columns: str | None, default: Iterable[str]) -> list[str]:
    """The keys in a comma-separated list of columns."""
    keys = list(default) if columns is None else [word.strip() for word in columns.split(",") if word.strip()]
    if not keys:
        raise InputError("--columns: no column at all", "there are " + ", ".join(FIGURES), "usage")
    from gptcalc.where import check  # patterns are slow to import

    for key in keys:
        check(key, FIGURES, "--columns")
    return keys


def columns(keys: Iterable[str]) -> list[Column]:
    return [Column(key, FIGURES[key].title, FIGURES[key].kind) for key in keys]


def row(facts: Facts, keys: Iterable[str]) -> dict[str, Any]:
    """A model's figures. What asks for a context that it can't have has none."""
    return {key: _figure(facts, key) for key in keys}


def _figure(facts: Facts, key: str) -> Any:
    if key in facts.known:
        return facts.known[key]
    try:
        return FIGURES[key].value(facts)
    except Impossible:
        return None


def ordered(rows: list[dict[str, Any]], by: str | None) -> list[dict[str, Any]]:
    """Rows sorted by a column of theirs (-KEY for the largest first), rows without a value last."""
    if by is None:
        return rows
    key, down = by.removeprefix("-"), by.startswith("-")
    known = [r for r in rows if r[key] is not None]
    return sorted(known, key=lambda r: r[key], reverse=down) + [r for r in rows if r[key] is None]
