"""The data of a page: what was written out of its models, with lines as MathML and symbols in words."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from msgspec import Struct

from gptcalc.analysis.explorer.sizes import Terms
from gptcalc.analysis.explorer.switches import groups, variants
from gptcalc.analysis.explorer.tables import OpenIndex, OpenLine, Structure, Table
from gptcalc.analysis.explorer.written import CACHES, Writer
from gptcalc.analysis.memory.engines import CHUNKS
from gptcalc.analysis.memory.live import width_of
from gptcalc.analysis.params import COMPONENTS, params
from gptcalc.architecture import Architecture
from gptcalc.dtypes import FP32
from gptcalc.equations import Workload
from gptcalc.equations.language import Index
from gptcalc.equations.stages import in_passes
from gptcalc.report.explain import PASSES, of_cache
from gptcalc.report.legend import SIZES, index_in_words, legend, shown
from gptcalc.report.page.formulas import Formula

#: by what indices are coloured
HUES: dict[str, str] = {
    "new": "token", "slots": "token", "source": "source", "frames": "token", "past": "past", "entries": "past",
    "vocabulary": "vocabulary", "positions": "vocabulary", "heads": "head", "experts": "expert", "choices": "expert",
    "chosen": "expert",
}  # fmt: skip


class Shown(Struct, frozen=True):
    """A model of a page: its architecture, and the document that its variants are made of."""

    architecture: Architecture
    document: Mapping[str, Any]


def data(models: Sequence[Shown], steps: Callable[[Sequence[str]], Iterable[str]] = tuple) -> dict[str, Any]:
    """All tables, and the models. `steps` hands out the models' names as work goes on."""
    writer = Writer()
    names = steps([model.architecture.name for model in models])
    shown = [_model(writer, model.architecture, model.document) for _, model in zip(names, models, strict=True)]
    page = _Page(writer)
    lines = [page.line(line) for line in writer.lines.places]
    dtypes = sorted({name for model in shown for structure in model["structures"] for name in structure["dtypes"]})
    return {
        "models": shown,
        "lines": lines,
        "bodies": [{"lines": body.lines, "moments": body.moments} for body in writer.bodies.places],
        "maths": list(page.maths.places),
        "words": list(page.words.places),
        "indices": [page.index(index) for index in page.indices.places],
        "sizes": [[size.text, _terms(size.terms)] for size in writer.sizes.places],
        "counts": [[[start, below, above] for start, below, above in count] for count in writer.counts.places],
        "components": COMPONENTS,
        "caches": CACHES,
        "pass": {"tokens": CHUNKS["ideal"], "logits": FP32.block_bytes, "widths": {n: width_of(n) for n in dtypes}},
    }  # fmt: skip


def _terms(terms: Terms) -> list[Any]:
    return [[above, below, dict(powers)] for above, below, powers in terms]


def _model(writer: Writer, architecture: Architecture, document: Mapping[str, Any]) -> dict[str, Any]:
    found, refused = variants(document, architecture)
    made: dict[tuple[str, ...], int] = {}
    structures: list[Structure] = []
    places = {}
    for name, variant in found.items():
        if variant.words not in made:
            made[variant.words] = len(structures)
            structures.append(writer.structure(variant))
        places[name] = made[variant.words]
    return {
        "name": architecture.name,
        "c": architecture.c,
        "total": str(params(architecture).total),
        "groups": [
            {"name": g.name, "label": g.label, "choices": [{"name": c.name, "label": c.label} for c in g.choices]}
            for g in groups(architecture)
        ],
        "variants": places,
        "refused": refused,
        "structures": [_structure(one) for one in structures],
    }


def _structure(one: Structure) -> dict[str, Any]:
    return {
        "words": one.words,
        "keys": {key.name: [key.path, key.base] for key in one.keys},
        "deeper": one.deeper,
        "step": one.step,
        "dtypes": one.dtypes,
        "longest": one.longest,
        "source": one.source,
        "stages": {
            phase: [
                {"name": s.name, "runs": s.runs, "passes": in_passes(s.passes), "times": s.times, "body": s.body}
                for s in own
            ]
            for phase, own in one.stages.items()
        },
    }


class _Page:
    """Lines as a page shows them."""

    def __init__(self, writer: Writer) -> None:
        self.writer = writer
        self.maths: Table[str] = Table()
        self.words: Table[str] = Table()
        self.indices: Table[OpenIndex] = Table()

    def line(self, line: OpenLine) -> dict[str, Any]:
        own = line.line
        hues = {index.letter: hue(index.index) for index in line.indices}
        cached = own.stored is not None
        where = [of_cache(own), PASSES[own.passes]]
        formula = Formula(hues, set(own.weights)).line(own.text, str(own.condition or ""))
        return {
            "math": self.maths.place(formula),
            "kind": own.kind,
            "component": own.component,
            "part": own.part,
            "where": ", ".join(filter(None, where)),
            "passes": own.passes,
            "left": own.statement.left.name,
            "reads": self._reads(line),
            "indices": [self.indices.place(index) for index in line.indices],
            "symbols": self._symbols(line),
            "tensors": [
                {"name": t.name, "key": t.key, "component": t.component, "sizes": t.sizes, "active": t.active,
                 "counted": t.counted, "shared": t.shared, "bytes": dict(t.bytes)}
                for t in line.tensors
            ],
            "terms": line.terms,
            "attends": line.attends,
            "store": None if line.store is None or not cached else
            {"kind": line.store.kind, "rows": line.store.rows, "bytes": dict(line.store.bytes)},
        }  # fmt: skip

    @staticmethod
    def _reads(line: OpenLine) -> list[str]:
        """The values that the line reads."""
        own = line.line
        names = [ref.name for ref in own.statement.references[1:] if ref.name not in own.weights]
        return list(dict.fromkeys(names + ([own.statement.left.name] if own.statement.adds else [])))

    def _symbols(self, line: OpenLine) -> dict[str, Any]:
        """Every symbol but indices: its kind, its meaning, and the letters of its indices."""
        own = line.line
        letters: dict[str, tuple[str, ...]] = {}
        for ref in own.statement.references:
            letters.setdefault(ref.name, tuple(ref.indices))
        return {
            s.symbol: [s.kind, self.words.place(s.meaning), [self.maths.place(_defined(d)) for d in s.definition]
                       if s.kind == "function" else
                       [shown(value) for value in s.values if s.symbol in own.constants] if s.kind == "number" else
                       letters.get(s.symbol, ())]
            for s in legend([(own, Workload(1))])
            if s.kind != "index"
        }  # fmt: skip

    def index(self, index: OpenIndex) -> dict[str, Any]:
        return {
            "letter": index.letter,
            "over": index.index.symbol,
            "size": index.size,
            "length": index.length,
            "means": index_in_words(index.index),
            "hue": hue(index.index),
        }


def _defined(text: str) -> str:
    return Formula({}, set()).line(text)


def hue(index: Index) -> str:
    """What an index is coloured by: what it runs over."""
    if index.role != "channels":
        return HUES.get(index.role, "other")
    if index.symbol == "d":
        return "stream"
    return "hidden" if SIZES.get(index.symbol, index_in_words(index)).startswith("hidden") else "channel"
