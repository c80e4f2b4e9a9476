"""Types of single tensors that llama.cpp's quantiser is told, whatever the mix says (llama-quantize --tensor-type).

From llama.cpp, src/llama-quant.cpp, llama_tensor_get_type: the first pattern that is found in a tensor's name decides,
of the tensors that the quantiser touches at all.
"""

from __future__ import annotations

from collections.abc import Iterable

from gptcalc.analysis.memory.mixes import KEPT, WIDE, Mix, Rule
from gptcalc.dtypes import DType
from gptcalc.equations import Tensor
from gptcalc.errors import InputError, printable
from gptcalc.patterns import compiled


class ByHand:
    """Patterns of tensors' names, each with its type."""

    def __init__(self, mix: Mix) -> None:
        self.types = [(compiled(pattern, "--dtype"), type_) for pattern, type_ in mix.types]

    def of(self, tensor: Tensor, rule: Rule, layer: int) -> DType | None:
        """The type that a tensor of a layer is given; None where no pattern is in its name."""
        if not self.types or not is_touched(tensor, rule):
            return None
        name = called(tensor, rule, layer)
        return next((type_ for pattern, type_ in self.types if pattern.search(name)), None)

    def check(self, names: Iterable[str]) -> None:
        """InputError where a pattern is in none of the names."""
        every = list(names)
        for pattern, _ in self.types:
            if not any(pattern.search(name) for name in every):
                problem = f"no quantised tensor is called {printable(pattern.pattern)!r}"
                example = ", ".join(sorted({name.rpartition(".")[0].rpartition(".")[2] for name in every}))
                raise InputError(f"--dtype: {problem}", f"write ffn_down=q6_k; there are {example}", "usage")


def is_touched(tensor: Tensor, rule: Rule) -> bool:
    """Whether the quantiser gives a tensor another type."""
    return tensor.kind in ("table", "matrix") and rule not in WIDE | KEPT


def called(tensor: Tensor, rule: Rule, layer: int) -> str:
    """What llama.cpp calls a tensor."""
    from gptcalc.sources.gguf.names import tensor_name

    return tensor_name(tensor.weight.plain, rule == "qkv", layer)
