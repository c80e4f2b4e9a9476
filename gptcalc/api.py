"""The Python API: what the package `gptcalc` offers, each function importing what it needs when it is called."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Concatenate, ParamSpec, TypeAlias, TypeVar

from msgspec.structs import replace

from gptcalc.answers import Outcome
from gptcalc.conventions import (
    DEVICE_SHARE,
    CompareRun,
    DiffRun,
    ExplainRun,
    FitRun,
    FlopsRun,
    InferenceRun,
    PretrainRun,
    RoomRun,
    Run,
    Share,
    TimeRun,
    TrainingRun,
)
from gptcalc.errors import InputError
from gptcalc.options import documented, keywords

if TYPE_CHECKING:
    from gptcalc.analysis.design.run import Design
    from gptcalc.analysis.design.taste import Taste
    from gptcalc.analysis.flops import Flops
    from gptcalc.analysis.memory.cache import KVCache
    from gptcalc.analysis.memory.fit import Fit
    from gptcalc.analysis.memory.result import Memory
    from gptcalc.analysis.memory.serve import Served
    from gptcalc.analysis.params import Params
    from gptcalc.analysis.pretraining import Pretraining
    from gptcalc.analysis.timed import Timed
    from gptcalc.architecture import Architecture
    from gptcalc.report.diff import Diff
    from gptcalc.report.explain import Explanation
    from gptcalc.report.figures import Facts
    from gptcalc.sources import Model, Reference
    from gptcalc.tracing import Trace

    AnyModel: TypeAlias = Reference | Model | Architecture
else:
    AnyModel = object  # what names a model is read where it is loaded

__all__ = [
    "InputError", "compare", "design", "diff", "explain", "fit", "flops", "kv", "load", "memory", "params", "presets",
    "serve", "sweep", "time", "trace", "train", "training",
]  # fmt: skip

P = ParamSpec("P")
H = TypeVar("H", bound=Run)
T = TypeVar("T")


def load(
    reference: Reference,
    overrides: Sequence[str] = (),
    *,
    strict: bool = False,
    ignore: Collection[str] = (),
    switches: Sequence[str] = (),
) -> Model:
    """The model that a reference names (a preset's name, a hub id, a path, or the keys of a preset or a config.json as
    a mapping), its variant by switches such as "gqa:4", with edits such as "n_kv_heads=4".

    `.architecture` is what the analyses and the witness read, `.document` the preset's keys. `strict` refuses fields of
    a config.json that its class doesn't read, `ignore` lets such pass by name. Raises InputError.
    """
    from gptcalc.sources import load

    return load(reference, overrides, strict=strict, ignore=ignore, switches=switches)


def params(model: AnyModel) -> Params:
    """Parameters: total, active, by component, by layer group, by tensor."""
    from gptcalc.analysis.params import params

    return params(_architecture(model))


def _options(how: Callable[P, H]) -> Callable[[Callable[[AnyModel, H], T]], Callable[Concatenate[AnyModel, P], T]]:
    """Makes a function of a model and its conventions one whose keyword arguments are the conventions' fields."""
    return lambda function: documented(keywords(how, function), how)


@_options(RoomRun)
def kv(model: AnyModel, how: RoomRun) -> KVCache:
    """The cache of a batch at a context, on one device: what is needed (engine ideal) or what an engine sets aside."""
    from gptcalc.analysis.memory.cache import cached

    return cached(_architecture(model), how)


@_options(FlopsRun)
def flops(model: AnyModel, how: FlopsRun) -> Flops:
    """FLOPs of a prefill, a decode step or a training step."""
    from gptcalc.analysis.flops import counted

    return counted(_architecture(model), how)


class DraftedRun(InferenceRun, frozen=True, kw_only=True):
    """A served model, and one beside it that proposes tokens."""

    draft: AnyModel | None = None


class DraftedFitRun(FitRun, frozen=True, kw_only=True):
    """The same on a device of so many bytes."""

    draft: AnyModel | None = None


class ServedRun(DraftedFitRun, frozen=True, kw_only=True):
    """The same on a device by name, of which a driver and others have a share."""

    utilization: Share = DEVICE_SHARE


@_options(DraftedRun)
def memory(model: AnyModel, how: DraftedRun) -> Memory:
    """What the fullest of the devices that run a model must hold, and all of them in sum."""
    from gptcalc.analysis.memory.account import held_by

    return held_by(_architecture(model, weighed=how.dtype is None), how, _proposer(how))


def _fit(how: Callable[P, DraftedFitRun]) -> Callable[Concatenate[AnyModel, str | int, P], Fit]:
    def fit(model: AnyModel, budget: str | int, /, *args: P.args, **options: P.kwargs) -> Fit:
        """Whether a model fits devices of so many bytes ("24GiB"), and the most that does."""
        from gptcalc import units
        from gptcalc.analysis.memory.fit import fitted

        capacity = units.size(budget) if isinstance(budget, str) else budget
        run = how(*args, **options)
        return fitted(_architecture(model, weighed=run.dtype is None), capacity, run, draft=_proposer(run))

    return documented(fit, how)


fit = _fit(DraftedFitRun)


def _serve(how: Callable[P, ServedRun]) -> Callable[Concatenate[AnyModel, str, P], Served]:
    def serve(model: AnyModel, device: str, /, *args: P.args, **options: P.kwargs) -> Served:
        """What a server has left for its cache on a device by name, or on several ("4xh100-sxm")."""
        from gptcalc.analysis.memory.serve import served
        from gptcalc.analysis.memory.sharding import over
        from gptcalc.sources.devices import asked

        named, run = asked(device), how(*args, **options)
        architecture = _architecture(model, weighed=run.dtype is None)
        spread = over(architecture, named.number, run)
        return served(architecture, named.model.visible, spread, named.model.title, _proposer(run))

    return documented(serve, how)


serve = _serve(ServedRun)


def _proposer(how: DraftedRun | DraftedFitRun) -> Architecture | None:
    return None if how.draft is None else _architecture(how.draft, weighed=how.dtype is None)


def _time(how: Callable[P, TimeRun]) -> Callable[Concatenate[AnyModel, str, P], Timed]:
    def time(model: AnyModel, device: str, /, *args: P.args, **options: P.kwargs) -> Timed:
        """How long a prompt and a further token take on a device by name, or on several ("8xh100-sxm")."""
        from gptcalc.analysis.memory.sharding import over
        from gptcalc.analysis.timed import timed
        from gptcalc.sources.devices import asked

        named, run = asked(device), how(*args, **options)
        architecture = _architecture(model, weighed=run.dtype is None)
        return timed(architecture, named.model, over(architecture, named.number, run))

    return documented(time, how)


time = _time(TimeRun)


def _train(how: Callable[P, PretrainRun]) -> Callable[Concatenate[AnyModel, str, P], Pretraining]:
    def train(model: AnyModel, device: str, /, *args: P.args, **options: P.kwargs) -> Pretraining:
        """What training on so many tokens takes on devices by name ("h100-sxm", devices=64): FLOPs, days, memory."""
        from gptcalc.analysis.pretraining import pretrained
        from gptcalc.sources.devices import asked

        named, run = asked(device), how(*args, **options)
        if run.devices is None and named.number is not None:
            run = replace(run, devices=named.number)
        return pretrained(_architecture(model), named.model, run)

    return documented(train, how)


train = _train(PretrainRun)


def sweep(
    model: Reference | Model,
    settings: Mapping[str, Sequence[int | str]],
    *,
    context: Sequence[int] = (),
    batch: Sequence[int] = (1,),
    columns: Sequence[str] | None = None,
    where: str | Sequence[str] = (),
    sort: str | None = None,
    top: int | None = None,
    pareto: Sequence[str] = (),
    part: tuple[int, int] = (1, 1),
    jobs: int = 1,
    dtype: str = "bf16",
    kv_dtype: str = "bf16",
) -> Points:
    """Every combination of values of a preset's keys, a row each: {"n_kv_heads": [1, 2, 4, 8]}.

    What is no model is left out. `where`, `sort` and `pareto` are as on the command line; `part` (3, 100) is the third
    of a hundred parts that together are the whole.
    """
    from gptcalc.analysis.sweep.piece import Axis
    from gptcalc.analysis.sweep.run import Grid, Sweep
    from gptcalc.conventions import SweepRun

    grid = Grid(
        document=_loaded(model).document,
        axes=tuple(Axis(key, tuple(values)) for key, values in settings.items()),
        contexts=tuple(context) or (None,),
        batches=tuple(batch),
        columns=None if columns is None else tuple(columns),
        where=(where,) if isinstance(where, str) else tuple(where),
        sort=sort,
        top=top,
        pareto=tuple(pareto),
        part=part,
        jobs=jobs,
        how=SweepRun(dtype=dtype, kv_dtype=kv_dtype),
    )
    return Points(Sweep(grid).rows())


def design(
    like: Reference | Model,
    free: Mapping[str, Sequence[int] | None],
    fits: str | int | None = None,
    *,
    where: str | Sequence[str] = (),
    maximize: str | None = None,
    minimize: str | None = None,
    context: int | None = None,
    batch: int = 1,
    top: int = 1,
    columns: Sequence[str] | None = None,
    taste: Taste | None = None,
    dtype: str = "bf16",
    kv_dtype: str = "bf16",
) -> Design:
    """The best architectures like a model in so many bytes ("24GiB") or under conditions ("total < 8e9").

    free: keys of the preset with the values that are tried; None: multiples of 128 of a width, up to 4 times the
    model's own. Without `minimize` the most of `maximize`, or of parameters. taste: the rules that designs keep to.
    """
    from gptcalc import units
    from gptcalc.analysis.design.run import Brief, designed
    from gptcalc.analysis.design.taste import Taste
    from gptcalc.conventions import SweepRun

    model = _loaded(like)
    brief = Brief(
        document=model.document,
        architecture=model.architecture,
        free=free,
        goal=minimize if minimize is not None else f"-{maximize or 'total'}",
        budget=units.size(fits) if isinstance(fits, str) else fits,
        where=(where,) if isinstance(where, str) else tuple(where),
        batch=batch,
        top=top,
        columns=None if columns is None else tuple(columns),
        taste=taste or Taste(),
        how=SweepRun(context=context, dtype=dtype, kv_dtype=kv_dtype),
    )
    return designed(brief)


@_options(TrainingRun)
def training(model: AnyModel, how: TrainingRun) -> Memory:
    """What the fullest of the devices that train a model must hold in a step, and all of them in sum."""
    from gptcalc.analysis.memory.training import trained

    return trained(_architecture(model), how)


@_options(ExplainRun)
def explain(model: AnyModel, how: ExplainRun) -> Explanation:
    """Every equation of the forward pass, with ranges, parameters and FLOPs."""
    from gptcalc.equations import equations, workload
    from gptcalc.report.explain import explanation

    architecture = _architecture(model)
    lines = equations(architecture, how.form, how.kept, how.chunks)
    return explanation(architecture.name, lines, workload(architecture, how))


def trace(model: AnyModel, *, context: int | None = None, source: int | None = None, decode: int = 0) -> Trace:
    """The witness's forward pass without data: shapes stage by stage, the last `decode` tokens one by one."""
    from gptcalc.tracing import shapes, usual_length

    architecture, how = _architecture(model), Run(context=context, source=source)
    length = usual_length(architecture) if how.context is None else how.length(architecture)
    return shapes(architecture, length, decode, how.source_length(architecture))


# --- several models ---------------------------------------------------------------------------------------------------


class Rows(list[dict[str, Any]]):
    """Rows with the same keys; a notebook shows them as a table."""

    report: ClassVar[str] = "rows"  # whose table

    def _repr_html_(self) -> str:
        from importlib import import_module

        from gptcalc.report.notebook import drawn

        return drawn(import_module(f"gptcalc.report.{self.report}").view(self, list(self[0]) if self else []))


class Points(Rows):
    """Points of a grid."""

    report: ClassVar[str] = "sweep"


class ColumnsRun(CompareRun, frozen=True, kw_only=True):
    """Many models, a row each, of so many columns: "model,total". None: those of the command."""

    columns: str | None = None


def _compare(how: Callable[P, ColumnsRun]) -> Callable[Concatenate[Iterable[AnyModel], P], Rows]:
    def compare(models: Iterable[AnyModel], /, *args: P.args, **options: P.kwargs) -> Rows:
        """A row a model: a list of dictionaries, whose keys are the columns."""
        from gptcalc.report import figures

        run = how(*args, **options)
        keys = figures.chosen(run.columns, figures.DEFAULT)
        return Rows(figures.row(facts, keys) for facts in (_facts(model, run) for model in models))

    return documented(compare, how)


compare = _compare(ColumnsRun)


def _diff(how: Callable[P, DiffRun]) -> Callable[Concatenate[AnyModel, AnyModel, P], Diff]:
    def diff(a: AnyModel, b: AnyModel, /, *args: P.args, **options: P.kwargs) -> Diff:
        """Two models line by line: fields, figures, equations; without a context, at that of the shorter."""
        from gptcalc.report.diff import diff

        run = how(*args, **options)
        shorter = min(_architecture(model).c for model in (a, b))
        run = run.to(DiffRun, context=run.context or shorter)
        return diff(_facts(a, run), _facts(b, run))

    return documented(diff, how)


diff = _diff(DiffRun)


def presets(
    pattern: str | None = None,
    *,
    family: str | None = None,
    feature: Sequence[str] = (),
    size: str | None = None,
    year: str | None = None,
) -> list[str]:
    """Names of presets: by a part of the name, family, features, parameters ("7B..9B") and year ("2023..2025")."""
    if family is None and not feature and size is None and year is None and pattern is None:
        from gptcalc.sources.preset import names

        return names()
    from gptcalc.report.selection import Selection

    found = Selection(pattern, family, tuple(feature), size, year).presets(CompareRun())
    return [facts.architecture.name for facts in found]


# --- models -----------------------------------------------------------------------------------------------------------


def _loaded(model: Reference | Model) -> Model:
    """The model itself, read where it is only named."""
    from gptcalc.sources import Model

    return model if isinstance(model, Model) else load(model)


def _facts(model: AnyModel, how: DiffRun) -> Facts:
    from gptcalc.architecture import Architecture
    from gptcalc.report.figures import Facts

    if isinstance(model, Architecture):
        return Facts(model, {}, how)
    found = _loaded(model)
    return Facts(found.architecture, found.written, how)


def _architecture(model: AnyModel, weighed: bool = False) -> Architecture:
    """A model's architecture; `weighed`: with what its tensors take in the files at hand, where there are any."""
    from gptcalc.architecture import Architecture

    if isinstance(model, Architecture):
        return model
    found = _loaded(model)
    if not weighed or found.tensors is None:
        return found.architecture
    from gptcalc.analysis import stored

    return stored.weighed(found).architecture


def _html(found: Outcome) -> str:
    from gptcalc.report.notebook import html

    return html(found)


Outcome.html = staticmethod(_html)
