"""A smaller model beside a served one that proposes its tokens: what it asks of that model, and how it is run."""

from __future__ import annotations

from msgspec.structs import replace

from gptcalc.analysis.memory.sharding import Layout
from gptcalc.analysis.params import NAMES, borrowed
from gptcalc.architecture import Architecture, Experts
from gptcalc.conventions import InferenceRun
from gptcalc.equations import equations
from gptcalc.errors import InputError


def check_pair(architecture: Architecture, draft: Architecture) -> None:
    """InputError where one of them gives no token after another, or a draft reads states or tables of another model."""
    for model in (draft, architecture):
        if model.sees_all:
            problem = f"{model.name} sees all tokens at once, so none comes later"
            raise InputError(f"--draft: {problem}", "leave it out", "usage")
    target = draft.target
    if target is None:
        return
    if target.d != architecture.d:
        problem = (
            f"{draft.name} reads hidden states of {target.d:,} channels, {architecture.name} has {architecture.d:,}"
        )
        raise InputError(f"--draft: {problem}", "it was made for another model")
    if (draft.embedding.borrowed or draft.head.borrowed) and draft.v != architecture.v:
        problem = f"{draft.name} reads tables of {draft.v:,} rows, those of {architecture.name} have {architecture.v:,}"
        raise InputError(f"--draft: {problem}", "it was made for another model")


def beside(how: InferenceRun, parallel: Layout, draft: Architecture) -> InferenceRun:
    """How a draft is run: whole on the last of the pipeline's stages, divided like the model there, none of it left on
    the host."""
    has_experts = any(isinstance(mixer, Experts) for mixer in draft.mixers())
    ways = {"pp": 1, "dp": parallel.dp, "ep": parallel.ep if has_experts else 1}
    return replace(how, **ways, mtp=False, ngl=None, n_cpu_moe=0, override_tensor=None, tensor_split=None)


def said(architecture: Architecture, draft: Architecture, dtype: str) -> tuple[str, ...]:
    """What is said of a draft in a data type, and of tables that it reads and the model has."""
    tables = [NAMES.get(part, part) for part in borrowed(equations(draft))]
    notes = [f"{draft.name} reads the {' and '.join(tables)} of {architecture.name}, counted once"] if tables else []
    return (f"beside it {draft.name} in {dtype}, its weights and its cache", *notes)
