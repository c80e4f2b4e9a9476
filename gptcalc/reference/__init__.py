"""The witness: a NumPy transformer that knows nothing of the equations.

import gptcalc
from gptcalc.reference import Model, shrink

small = shrink(gptcalc.load("llama-3-8b").architecture)   # one layer of each kind, every size small
model = Model(small)                                      # seeded random weights
result = model.prefill([5, 23, 7], attention=True)
result.logits         # (1, 3, v)
result.hidden         # one (1, 3, d) a block: its output, before the final norm
result.attention      # one (1, n_heads, 3, 3) a sublayer of attention
model.decode(11)      # one more token, through the cache
model.cache.arrays    # keys and values by sublayer: (1, n_kv_heads, S, d_head)
model.tally.total     # FLOPs so far
"""

from gptcalc.reference.model import Model, Result
from gptcalc.reference.shapes import shape_only
from gptcalc.reference.shrink import shrink
from gptcalc.reference.store import MappingStore, RandomStore, ShapeStore

__all__ = ["MappingStore", "Model", "RandomStore", "Result", "ShapeStore", "shape_only", "shrink"]
