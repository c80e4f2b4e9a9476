"""gptcalc dtypes"""

from __future__ import annotations

from gptcalc.cli.answer import Answer, show

RESULT = "gptcalc.report.dtypes:Type"


def command() -> Answer:
    """What --dtype and --kv-dtype know: data types and formats, with their bits."""
    from gptcalc.report.dtypes import known

    found = list(known())
    return Answer(found, show("dtypes", found), is_list=True)
