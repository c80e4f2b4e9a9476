"""What other programs read at the top of this repository: an action, a hook, an image, the site's pages."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys

import pytest
import yaml

from gptcalc import cli
from tests import REPOSITORY


def read(name: str) -> str:
    return (REPOSITORY / name).read_text(encoding="utf-8")


@pytest.mark.parametrize(("expect", "status"), [("total=124439808 kv.bytes_per_token=36864", 0), ("total=1", 1)])
def test_the_action_checks(expect: str, status: int) -> None:
    """Its last step, run as GitHub runs it, with this gptcalc."""
    action = yaml.safe_load(read("action.yml"))
    assert set(action["inputs"]) == {"model", "expect", "options"}
    step = action["runs"]["steps"][-1]
    words = {"MODEL": "gpt2", "EXPECT": expect, "OPTIONS": "--context 1K"}
    assert set(step["env"]) == set(words)
    script = f'gptcalc() {{ {shlex.quote(sys.executable)} -m gptcalc "$@"; }}\n{step["run"]}'
    done = subprocess.run(
        ["bash", "-eo", "pipefail", "-c", script], env={**os.environ, **words}, cwd=REPOSITORY, capture_output=True
    )
    assert done.returncode == status, done.stderr


def test_the_hook_is_a_command() -> None:
    (hook,) = yaml.safe_load(read(".pre-commit-hooks.yaml"))
    program, command = hook["entry"].split()
    assert program == "gptcalc"
    assert command in cli.names()
    assert re.search(hook["files"], "my-model/config.json")
    assert not re.search(hook["files"], "model.py")
    assert f"id: {hook['id']}" in read("CONTRIBUTING.md")


def test_the_image_runs_the_command() -> None:
    assert 'ENTRYPOINT ["gptcalc"]' in read("Dockerfile")
    assert set(re.findall(r"^FROM (\S+)", read("Dockerfile"), re.MULTILINE)) == {"python:3.13-slim"}


def test_every_page_of_the_site_is_in_its_menu() -> None:
    """mkdocs says so, too, where it is installed."""
    menu = read("mkdocs.yml")
    for page in (REPOSITORY / "docs").glob("*.md"):
        assert re.search(rf"\b{re.escape(page.name)}\b", menu), page.name
