"""gptcalc dtypes"""

from __future__ import annotations

from gptcalc.cli.answer import Answer, show

RESULT = "gptcalc.report.dtypes:Type"


def command() -> Answer:
    """Data types and formats of weights and caches, with their bits.

    gptcalc dtypes
    """
    from gptcalc.report.dtypes import known

    found = list(known())
    return Answer(found, show("dtypes", found), is_list=True)
