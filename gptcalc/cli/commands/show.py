"""gptcalc show"""

from __future__ import annotations

from typing import Annotated

from gptcalc.cli.answer import Answer, show
from gptcalc.cli.options import Model, Set
from gptcalc.options import Option

RESULT = "gptcalc.document:Document"


def command(
    model: Model,
    settings: Set = [],  # noqa: B006
    resolved: Annotated[bool, Option("With every default filled in.")] = False,
) -> Answer:
    """The architecture as a preset file: from a config.json, a checkpoint, or a preset with changes.

    gptcalc show llama-3-8b
    gptcalc show ./my-model -o my-model.yaml
    gptcalc show llama-3-8b --with gqa:4
    gptcalc show gpt2 --resolved
    """
    from gptcalc.sources import load
    from gptcalc.sources.paths import YAML_SUFFIXES
    from gptcalc.sources.preset import dump

    loaded = load(model, settings)
    document = loaded.document
    if resolved:
        from gptcalc.document.resolved import resolved as filled

        document = filled(document)
    return Answer(document, show("document", document), loaded.notes, text=dump(document), ends=YAML_SUFFIXES)
