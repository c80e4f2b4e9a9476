"""The KV cache: what is held for every token, with windows and latents as they are."""

from __future__ import annotations

from msgspec import Struct

from gptcalc.architecture import Architecture
from gptcalc.dtypes import DType, dtype
from gptcalc.equations import Line, equations
from gptcalc.equations.latent import CacheForm


class CacheGroup(Struct, frozen=True):
    name: str
    layers: int
    kind: str
    cached_tokens: int
    elements_per_token: int
    bytes: int


class KVCache(Struct, frozen=True):
    """The keys of `gptcalc kv --json`."""

    model: str
    batch: int
    context: int
    kv_dtype: str
    engine: str
    mla_cache: CacheForm
    bytes: int
    bytes_per_token: int
    elements_per_token: int
    state_bytes: int
    full_bytes: int
    formula: str
    groups: tuple[CacheGroup, ...]


class Pool(Struct, frozen=True):
    """Equal stores of one stage: the same layers, the same kind, the same part of the past kept."""

    name: str
    layers: int
    kind: str
    limit: int | None  # tokens kept; None keeps all
    elements: int  # per token and layer
    bytes: int  # per token and layer

    def tokens(self, context: int) -> int:
        return context if self.limit is None else min(context, self.limit)

    def total(self, context: int) -> int:
        """Bytes of one sequence."""
        return self.layers * self.bytes * self.tokens(context)


def pools(architecture: Architecture, kv_dtype: DType, mla_cache: CacheForm = "latent") -> list[Pool]:
    """What the store lines keep, per stage and kind."""
    found: dict[tuple[str, str, int | None], Pool] = {}
    for stage in equations(architecture, cache=mla_cache).stages:
        if stage.kind == "mtp":
            continue
        for line in stage.lines:
            if line.kind != "store" or line.kept is None:
                continue
            kind, limit = _kind(line)
            elements = line.stored_elements()
            size = kv_dtype.row_bytes(elements)
            key = (stage.name, kind, limit)
            old = found.get(key)
            if old is not None:
                elements, size = old.elements + elements, old.bytes + size
            found[key] = Pool(stage.name, stage.times, kind, limit, elements, size)
    return list(found.values())


def _kind(line: Line) -> tuple[str, int | None]:
    kept = line.kept
    assert kept is not None
    if kept.window is not None:
        return "window", kept.window
    if kept.chunk is not None:
        return "chunk", kept.chunk
    if line.pool == "index":
        return "index", None
    return ("latent" if line.text.startswith(("C[", "K_R[")) else "full"), None


def kv(
    architecture: Architecture,
    *,
    batch: int = 1,
    context: int | None = None,
    kv_dtype: str = "bf16",
    engine: str = "ideal",
    mla_cache: CacheForm = "latent",
) -> KVCache:
    """The cache of a batch at a context: every window holds min(context, window) tokens."""
    length = context or architecture.c
    held = pools(architecture, dtype(kv_dtype), mla_cache)
    groups = tuple(
        CacheGroup(p.name, p.layers, p.kind, p.tokens(length), p.layers * p.elements, batch * p.total(length))
        for p in held
    )
    return KVCache(
        model=architecture.name,
        batch=batch,
        context=length,
        kv_dtype=kv_dtype,
        engine=engine,
        mla_cache=mla_cache,
        bytes=sum(group.bytes for group in groups),
        bytes_per_token=sum(p.layers * p.bytes for p in held),
        elements_per_token=sum(group.elements_per_token for group in groups),
        state_bytes=0,
        full_bytes=batch * length * sum(p.layers * p.bytes for p in held),
        formula=formula(held, batch),
        groups=groups,
    )


def formula(held: list[Pool], batch: int) -> str:
    """Bytes as pieces of a + b·S, one piece between any two window lengths."""
    limits = sorted({p.limit for p in held if p.limit is not None})
    pieces = []
    for low, high in zip([0, *limits], [*limits, None], strict=True):
        slope = batch * sum(p.layers * p.bytes for p in held if p.limit is None or p.limit > low)
        constant = batch * sum(p.layers * p.bytes * p.limit for p in held if p.limit is not None and p.limit <= low)
        terms = [f"{constant:,}"] if constant else []
        if slope:
            terms.append(f"{slope:,}·S")
        pieces.append((" + ".join(terms) or "0") + (f" for S ≤ {high:,}" if high is not None else ""))
    return "; ".join(pieces) + (" beyond" if len(pieces) > 1 else "")
