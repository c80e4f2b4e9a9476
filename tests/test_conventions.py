"""The conventions of a run: checked wherever they come from, and one declaration for command line and Python."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import pytest

import gptcalc
from gptcalc import InputError, conventions
from gptcalc.api import DraftedFitRun, DraftedRun
from gptcalc.cli import run
from gptcalc.conventions import CacheRun, FlopsRun, InferenceRun, RoomRun, Run, TrainingRun
from gptcalc.options import declared, spelled

#: a wrong call of the library, and the same on the command line
WRONG: list[tuple[Callable[..., Any], dict[str, Any], str]] = [
    (gptcalc.flops, {"phase": "trian"}, "flops gpt2 --phase trian"),
    (gptcalc.flops, {"pairs": "all"}, "flops gpt2 --pairs all"),
    (gptcalc.flops, {"mla": "latent"}, "flops gpt2 --mla latent"),
    (gptcalc.flops, {"batch": 0}, "flops gpt2 --batch 0"),
    (gptcalc.kv, {"context": -1}, "kv gpt2 --context -1"),
    (gptcalc.kv, {"context": 1025}, "kv gpt2 --context 1025"),
    (gptcalc.kv, {"engine": "vlm"}, "kv gpt2 --engine vlm"),
    (gptcalc.kv, {"kv_dtype": "bf61"}, "kv gpt2 --kv-dtype bf61"),
    (gptcalc.memory, {"tp": 0}, "memory gpt2 --tp 0"),
    (gptcalc.memory, {"tp": 5}, "memory gpt2 --tp 5"),
    (gptcalc.memory, {"pp": 13}, "memory gpt2 --pp 13"),
    (gptcalc.memory, {"dtype": "int44"}, "memory gpt2 --dtype int44"),
    (gptcalc.memory, {"logits": "first"}, "memory gpt2 --logits first"),
    (gptcalc.memory, {"prefill_chunk": 0}, "memory gpt2 --prefill-chunk 0"),
]


@pytest.mark.parametrize(("call", "options", "line"), WRONG, ids=[line for _, _, line in WRONG])
def test_the_library_refuses_what_the_command_line_refuses(
    call: Callable[..., Any], options: dict[str, Any], line: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(InputError) as caught:
        call("gpt2", **options)
    assert run(line.split()) == 2
    hint = f"; {caught.value.hint}" if caught.value.hint else ""
    assert capsys.readouterr().err == f"gptcalc: {caught.value.message}{hint}\n"


@pytest.mark.parametrize(
    "options", [{"batch": True}, {"batch": 2.0}, {"context": "8K"}, {"kv_dtype": 8}, {"engine": None}, {"engine": 1}]
)
def test_values_of_another_type_are_refused(options: dict[str, Any]) -> None:
    (name,) = options
    with pytest.raises(InputError, match=spelled(name)):
        gptcalc.kv("gpt2", **options)


@pytest.mark.parametrize("budget", [0, -1, "0GiB", "24"])
def test_a_budget_is_a_size(budget: int | str) -> None:
    with pytest.raises(InputError):
        gptcalc.fit("gpt2", budget)


@pytest.mark.parametrize(
    ("function", "kind"),
    [(gptcalc.kv, RoomRun), (gptcalc.flops, FlopsRun), (gptcalc.memory, DraftedRun), (gptcalc.fit, DraftedFitRun)],
)
def test_keyword_arguments_are_the_fields(function: Callable[..., Any], kind: type[Run]) -> None:
    shown = {p.name: p.default for p in inspect.signature(function).parameters.values() if p.kind is p.KEYWORD_ONLY}
    assert shown == {name: getattr(kind(), name) for name in declared(kind)}
    with pytest.raises(TypeError, match="contxt"):
        function("gpt2", *["1GiB"][: function is gptcalc.fit], contxt=1)


#: a step has a batch of its own, is trained in bf16; a pass is of one phase and makes the last logits; an engine keeps
#: what the files say
EXCEPTIONS = (
    (TrainingRun, "batch"), (TrainingRun, "dtype"), (InferenceRun, "phase"), (InferenceRun, "logits"),
    (InferenceRun, "kv_dtype"),
)  # fmt: skip


def test_a_field_means_the_same_everywhere() -> None:
    """Equal names have equal declarations and defaults, but for a training step's batch and what is usual."""
    seen: dict[str, Any] = {}
    for kind in (FlopsRun, CacheRun, InferenceRun, TrainingRun, conventions.LockRun, conventions.ExplainRun):
        for name, annotation in declared(kind).items():
            if (kind, name) in EXCEPTIONS:
                continue
            assert seen.setdefault(name, (annotation, getattr(kind(), name))) == (annotation, getattr(kind(), name))
