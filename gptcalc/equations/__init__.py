"""What an architecture means: its forward pass as sums over named indices."""

from gptcalc.equations.language import PAST, Chosen, Entries, Index, Line, Pairs, Tensor, Weight, Workload
from gptcalc.equations.model import Equations, Stage, equations

__all__ = [
    "PAST", "Chosen", "Entries", "Equations", "Index", "Line", "Pairs", "Stage", "Tensor", "Weight", "Workload",
    "equations",
]  # fmt: skip
