"""gptcalc show"""

from __future__ import annotations

from gptcalc.cli.answer import Answer, show
from gptcalc.cli.options import Model, Set

RESULT = "gptcalc.document:Document"


def command(model: Model, settings: Set = []) -> Answer:  # noqa: B006
    """The architecture as a preset file: from a config.json, a checkpoint, or a preset with changes.

    gptcalc show llama-3-8b
    gptcalc show ./my-model -o my-model.yaml
    gptcalc show llama-3-8b --with gqa:4
    """
    from gptcalc.sources import load
    from gptcalc.sources.preset import dump

    loaded = load(model, settings)
    document = loaded.document
    return Answer(document, show("document", document), loaded.notes, text=dump(document))
