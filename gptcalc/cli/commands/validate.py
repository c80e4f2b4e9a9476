"""gptcalc validate"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

from gptcalc.cli.answer import Answer, show
from gptcalc.cli.options import Models, Set
from gptcalc.cli.progress import each
from gptcalc.errors import InputError
from gptcalc.options import Option

if TYPE_CHECKING:
    from gptcalc.sources import Model as Loaded
    from gptcalc.validate import Validation

RESULT = "gptcalc.validate:Validation"


def command(
    models: Models = [],  # noqa: B006
    every: Annotated[bool, Option("Every preset.", name="--all")] = False,
    settings: Set = [],  # noqa: B006
    checkpoint: Annotated[
        str | None,
        Option("Hold the tensors of this file, folder or hub id too.", "PATH"),
    ] = None,
    materialize: Annotated[bool, Option("Run the full-size model for real, where memory allows.")] = False,
) -> Answer:
    """Holds the counts against a run of the model in NumPy, or against a checkpoint's tensors.

    gptcalc validate gpt2 llama-3-8b
    gptcalc validate ./my-model
    """
    from gptcalc.sources import load_all
    from gptcalc.sources.preset import names

    if not models and not every:
        raise InputError("validate: no MODEL", "name one or more, or --all", "usage")
    if checkpoint is not None and (every or len(models) != 1):
        raise InputError("--checkpoint goes with one MODEL", kind="usage")
    references = [*models, *(names() if every else ())]
    found: list[Validation] = []
    notes: list[str] = []
    sides = load_all(references, settings)
    for _, loaded in zip(each(references), sides, strict=True):
        found.append(_validated(loaded, not settings, checkpoint, materialize))
        notes += loaded.notes
    status = 0 if all(result.ok for result in found) else 1
    return Answer(found, show("validate", found), tuple(notes), status)


def _validated(loaded: Loaded, as_published: bool, checkpoint: str | None, materialize: bool) -> Validation:
    from gptcalc.validate import materialized, validate, with_checkpoint

    published = loaded.written.get("published") or {}
    result = validate(loaded.architecture, published.get("total") if as_published else None)
    if checkpoint is not None:
        result = with_checkpoint(result, loaded, checkpoint)
    if materialize:
        result = materialized(result, loaded.architecture)
    return result
