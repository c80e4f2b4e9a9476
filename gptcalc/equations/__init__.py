"""What an architecture means: its forward pass as sums over named indices."""

from gptcalc.equations.language import Chosen, Index, Line, Pairs, Tensor, Weight, Workload
from gptcalc.equations.model import Equations, Stage, equations

__all__ = ["Chosen", "Equations", "Index", "Line", "Pairs", "Stage", "Tensor", "Weight", "Workload", "equations"]
