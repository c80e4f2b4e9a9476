"""gptcalc page"""

from __future__ import annotations

from gptcalc.cli.answer import Answer, show
from gptcalc.cli.options import Models, Set
from gptcalc.cli.progress import each

RESULT = "gptcalc.report.page:Listed"


def command(models: Models = [], settings: Set = []) -> Answer:  # noqa: B006
    """Models as a page to explore: picture, sums, switches, sliders (-o page.html). Default: a dozen famous ones.

    gptcalc page gpt2 -o gpt2.html
    """
    from gptcalc.analysis.params import params
    from gptcalc.report.page import FAMOUS, Listed
    from gptcalc.sources import load_all

    found = load_all(models or FAMOUS, settings)

    def html() -> str:
        from gptcalc.report.page import document
        from gptcalc.report.page.data import Shown

        return document([Shown(model.architecture, model.document) for model in found], steps=each)

    rows = [Listed(model.architecture.name, params(model.architecture).total) for model in found]
    warnings = tuple(note for model in found for note in model.notes)
    return Answer(rows, show("page", rows), warnings, drawn={"html": html})
