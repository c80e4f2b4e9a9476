"""gptcalc columns"""

from __future__ import annotations

from gptcalc.cli.answer import Answer, show

RESULT = "gptcalc.report.keys:Key"


def command() -> Answer:
    """What --columns and --sort of compare and presets know: names, what they hold, meaning."""
    from gptcalc.report.keys import of_rows

    found = list(of_rows())
    return Answer(found, show("keys", found), is_list=True)
