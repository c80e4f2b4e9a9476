"""What engines choose by the device where nothing is said."""

from __future__ import annotations

from typing import TypeVar

from gptcalc.analysis.memory import sglang, vllm
from gptcalc.architecture import Architecture
from gptcalc.conventions import InferenceRun

H = TypeVar("H", bound=InferenceRun)


def settled(architecture: Architecture, how: H, memory: int, name: str = "") -> H:
    """A run on a device of so much memory. vLLM's rules ask for its name."""
    match how.engine:
        case "vllm":
            return vllm.settled(how, memory, name)
        case "sglang":
            return sglang.settled(architecture, how, memory)
    return how
