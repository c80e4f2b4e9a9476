"""Which results recomputation by operators keeps, and which it makes again in the backward pass.

torchtitan/distributed/activation_checkpoint.py (SelectiveAC): attention's results are kept, and of the products with
one matrix, routers' left out, the first, the third and so on of a layer. All else is made again from x.
"""

from __future__ import annotations

from gptcalc.equations import Chosen, Line, Stage


def kept_results(stage: Stage) -> list[Line]:
    """The lines whose results are kept, the scores' among them for what fused attention keeps instead."""
    found = []
    products = 0
    for line in stage.lines:
        if line.flash or (line.attends() and not line.is_of_pairs(line.statement.left)):
            found.append(line)
        elif _is_product(line):
            products += 1
            if products % 2:
                found.append(line)
    return found


def made_again(stage: Stage) -> list[Line]:
    """The counted lines that run once more."""
    kept = {id(line) for line in kept_results(stage)}
    return [line for line in stage.lines if line.kind == "sum" and id(line) not in kept and not line.attends()]


def _is_product(line: Line) -> bool:
    if line.component == "router" or isinstance(line.condition, Chosen):
        return False
    return any(tensor.kind == "matrix" for tensor in line.tensors())
