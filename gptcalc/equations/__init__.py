"""What an architecture means: its forward pass as sums over named indices."""

from gptcalc.equations.conditions import (
    Chosen,
    Constant,
    Entries,
    OfSource,
    Pairs,
    Strides,
    Wanted,
    Within,
    Workload,
    workload,
)
from gptcalc.equations.language import Index, Line, Tensor, Weight
from gptcalc.equations.model import equations
from gptcalc.equations.stages import Equations, Layer, Stage
from gptcalc.equations.statement import Reference

__all__ = [
    "Chosen", "Constant", "Entries", "Equations", "Index", "Layer", "Line", "OfSource", "Pairs", "Reference",
    "Stage", "Strides", "Tensor", "Wanted", "Weight", "Within", "Workload", "equations", "workload",
]  # fmt: skip
