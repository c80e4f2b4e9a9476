"""gptcalc show"""

from __future__ import annotations

from gptcalc.cli.answer import Answer, show
from gptcalc.cli.options import Model, Set

RESULT = "gptcalc.document:Document"


def command(model: Model, settings: Set = []) -> Answer:  # noqa: B006
    """The architecture, as a preset file; so this converts a config.json."""
    from gptcalc.sources import load
    from gptcalc.sources.preset import dump

    loaded = load(model, settings)
    document = loaded.document
    return Answer(document, show("document", document), loaded.notes, text=dump(document))
