"""gptcalc columns"""

from __future__ import annotations

from gptcalc.cli.answer import Answer, show

RESULT = "gptcalc.report.keys:Key"


def command() -> Answer:
    """The columns of compare and presets, for --columns, --sort and --where.

    gptcalc columns
    """
    from gptcalc.report.keys import of_rows

    found = list(of_rows())
    return Answer(found, show("keys", found), is_list=True)
