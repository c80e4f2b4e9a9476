"""What shells offer: their protocol driven as the scripts of --show-completion do."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from gptcalc import cli
from gptcalc.analysis.memory.optimizer import OPTIMIZERS
from gptcalc.cli.answer import Command as Declared
from gptcalc.cli.completion import SHELLS, completing
from gptcalc.sources import devices, load, preset
from tests.conftest import Command

PROGRAM = [sys.executable, "-m", "gptcalc"]


def asked(line: str, shell: str) -> list[str]:
    """What the program answers a shell whose command line ends here; words without what the shell wants around them."""
    words = line.split(" ")
    own = {
        "_GPTCALC_COMPLETE": f"complete_{shell}", "COMP_WORDS": line, "COMP_CWORD": str(len(words) - 1),
        "_TYPER_COMPLETE_ARGS": line, "_TYPER_COMPLETE_WORD_TO_COMPLETE": words[-1],
        "_TYPER_COMPLETE_FISH_ACTION": "get-args",
    }  # fmt: skip
    done = subprocess.run(PROGRAM, env={**os.environ, **own}, capture_output=True, text=True, check=False)
    assert done.stderr == ""
    lines = done.stdout.splitlines()
    if shell == "zsh":
        return [line.removeprefix("_arguments '*: :((").removesuffix("))'").split(":")[0].strip('"') for line in lines]
    return [line.partition(":::" if shell == "powershell" else "\t")[0] for line in lines]


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish", "powershell"])
def test_every_shell_is_answered(shell: str) -> None:
    assert asked("gptcalc params llama-3.1-", shell) == [n for n in preset.names() if n.startswith("llama-3.1-")]
    assert asked("gptcalc fit gpt2 --device h100-", shell) == [n for n in devices.names() if n.startswith("h100-")]


@pytest.mark.parametrize("variable", cli.LINES)
@pytest.mark.parametrize(
    ("line", "alone"),
    [
        ("gptcalc params ll", True), ("gptcalc params ", True), ("gptcalc  params --json x", True),
        ("gptcalc params", False), ("gptcalc pa", False), ("gptcalc ", False), ("gptcalc parms ll", False),
        ("gptcalc", False), ("", False),
    ],
)  # fmt: skip
def test_the_command_of_a_line_is_loaded_alone(
    line: str, alone: bool, variable: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(variable, line)
    assert cli._completed() == (["params"] if alone else cli.names())


def offered(line: str) -> list[str]:
    """What completes the last word of a command line, asked without a shell."""
    _, command, *words = line.split(" ")
    option, incomplete = words[-2:] if len(words) > 1 else ("", words[-1])
    parameters = Declared(cli.function(command)).parameters
    (parameter,) = [p for p in parameters if option in p.words] or [parameters[0]]
    complete = completing(command, parameter)
    assert complete is not None
    return complete(incomplete)


@pytest.mark.parametrize(
    ("line", "some"),
    [
        ("gptcalc params Llama-3.1-8b-", ["llama-3.1-8b-eagle3"]),
        ("gptcalc params qwen/qwen3-8", ["Qwen/Qwen3-8B"]),
        ("gptcalc serve gpt2 --device 4xa100-80", ["4xa100-80gb"]),
        ("gptcalc memory gpt2 --dtype q4_k", ["q4_k_m", "q4_k_s"]),
        ("gptcalc memory gpt2 --dtype nv", ["nvfp4"]),
        ("gptcalc kv gpt2 --kv-dtype q8_0:q4_", ["q8_0:q4_0", "q8_0:q4_1"]),
        ("gptcalc kv gpt2 --kv-cache-dtype fp8_", ["fp8_ds_mla"]),
        ("gptcalc memory gpt2 --optimizer adaf", ["adafactor", "adafactor-bf16"]),
        ("gptcalc memory gpt2 --engine v", ["vllm"]),
        ("gptcalc compare gpt2 --columns model,tot", ["model,total"]),
        ("gptcalc compare gpt2 --sort -kv_bytes", ["-kv_bytes", "-kv_bytes_per_token"]),
        ("gptcalc presets --family gemm", ["gemma"]),
        ("gptcalc presets --feature hyper", ["hyper-connections"]),
        ("gptcalc params gpt2 --get components,act", ["components,active", "components,active_mean"]),
        ("gptcalc memory gpt2 --get per_device.w", ["per_device.weights"]),
        ("gptcalc compare gpt2 --get 0.head", ["0.headroom_bytes"]),
        ("gptcalc kv gpt2 --why bytes_", ["bytes_per_token"]),
        ("gptcalc params gpt2 --why non", ["non_embedding"]),
        ("gptcalc params gpt2 --set n_kv", ["n_kv_heads="]),
        ("gptcalc params gpt2 --set moe.top", ["moe.top_k="]),
        ("gptcalc params gpt2 --set position=al", ["position=alibi"]),
        ("gptcalc keys windo", ["window"]),
        ("gptcalc keys serv", ["serve"]),
    ],
)
def test_values(line: str, some: list[str]) -> None:
    assert offered(line) == some


def test_what_is_offered_is_taken(gptcalc: Command) -> None:
    """Every word of a list is one that the option takes."""
    for name in offered("gptcalc memory gpt2 --optimizer "):
        assert gptcalc("memory", "gpt2", "--training", "--optimizer", name).status == 0, name
    assert set(offered("gptcalc memory gpt2 --optimizer ")) == set(OPTIMIZERS)
    for key in offered("gptcalc params gpt2 --get "):
        assert gptcalc("params", "gpt2", "--get", key).status == 0, key
    for command in ("params", "kv", "flops"):
        for key in offered(f"gptcalc {command} gpt2 --why "):
            assert gptcalc(command, "gpt2", "--why", key).status == 0, key
    for alias in offered("gptcalc params meta-llama/"):
        assert load(alias).origin in preset.names()


@pytest.mark.parametrize("shell", SHELLS)
def test_the_script_of_each_shell(shell: str, gptcalc: Command) -> None:
    result = gptcalc("--show-completion", shell)
    assert (result.status, result.err) == (0, "")
    assert f"complete_{'powershell' if shell == 'pwsh' else shell}" in result.out


def test_the_script_of_no_shell(gptcalc: Command) -> None:
    result = gptcalc("--show-completion", "zhs")
    assert (result.status, result.out, len(result.lines)) == (2, "", 1)
    assert "did you mean zsh?" in result.err
