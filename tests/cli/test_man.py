"""The manual page has what --help has, in words that roff takes."""

from __future__ import annotations

import shutil
import subprocess

import pytest

from gptcalc.cli import names
from gptcalc.cli.man import manual
from tests.cli.test_help import PAGES


def test_every_command_and_option_stands_in_the_manual() -> None:
    found = manual("1.2.3").replace("\\-", "-").replace("\\e", "\\").replace("\\&", "")
    assert 'GPTCALC 1 "" "gptcalc 1.2.3"' in found
    for name in names():
        page = PAGES[name]
        assert f'.SS "{page.usage}"\n{page.summary}\n' in found
        for _, entries in page.panels:
            for entry in entries:
                assert f"\\fB{entry.words}\\fR\n" in found


@pytest.mark.skipif(shutil.which("groff") is None, reason="groff is not installed")
def test_roff_has_nothing_to_complain_about() -> None:
    done = subprocess.run(
        ["groff", "-man", "-Kutf8", "-Tutf8", "-ww", "-z"],
        input=manual("0"),
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
