"""Blocks of keys at a stride: pairs counted by going through all of them, as the published mask has them."""

from __future__ import annotations

from itertools import product

import pytest

from gptcalc.analysis.flops import flops
from gptcalc.architecture import Strided
from gptcalc.document import build
from gptcalc.equations import Strides, Workload
from gptcalc.sources.huggingface import read


def sees(s: Strided, n_heads: int, head: int, t: int, key: int) -> bool:
    """The mask of triton_flash_blocksparse_attn.py in Phi-3-small's repository: q_pos ≥ k_pos, and q_pos − k_pos below
    local_blocks or (k_pos + h·max(1, int(vert_stride / n_heads)) + 1) % vert_stride = 0, of blocks; causal inside."""
    q_pos, k_pos = t // s.block, key // s.block
    h = head if s.by_head else 0
    strided = (k_pos + h * max(1, int(s.stride / n_heads)) + 1) % s.stride == 0
    return key <= t and (q_pos - k_pos < s.local or strided)


@pytest.mark.parametrize("by_head", [True, False])
@pytest.mark.parametrize(
    ("block", "local", "stride", "n_heads", "n_kv_heads"),
    [(2, 2, 3, 6, 3), (3, 1, 4, 2, 1), (1, 1, 5, 3, 3), (4, 3, 2, 4, 2), (2, 1, 1, 2, 2)],
)
def test_pairs_are_those_of_the_mask(
    block: int, local: int, stride: int, n_heads: int, n_kv_heads: int, by_head: bool
) -> None:
    s = Strided(block=block, local=local, stride=stride, by_head=by_head)
    firsts = tuple(s.first(head, n_heads) for head in range(n_heads))
    condition = Strides(block, local, stride, firsts, n_kv_heads, "far")
    share = n_heads // n_kv_heads
    for tokens in (1, 2, 5, 12, 29, 40):
        seen = [
            (h, t, key) for h, t, key in product(range(n_heads), range(tokens), range(tokens))
            if sees(s, n_heads, h, t, key)
        ]  # fmt: skip
        last = {(h // share, key) for h, t, key in seen if t == tokens - 1}
        assert condition.count(Workload(tokens)) == len(seen)
        assert condition.count(Workload(tokens, "decode")) == sum(t == tokens - 1 for _, t, _ in seen)
        assert condition.keys(Workload(tokens, "decode")) == len(last)


#: Phi-3-small's published sizes are what its class assumes
PHI_3_SMALL = {"model_type": "phi3small", "architectures": ["Phi3SmallForCausalLM"]}


def test_flops_of_phi_3_small() -> None:
    """At 8,192 tokens: 128 blocks of 64 keys. A head of a local layer sees of its 16 newest blocks 15 whole and its own
    in part, and of those before every 8th; summed over the 8 heads with other remainders these are all, so that 32
    heads see 4 times as many as one head that sees everything before. Half of the layers see everything."""
    model = build(read(PHI_3_SMALL).document)
    s, block, local = 8192, 64, 16
    near = sum(min(t // block, local - 1) * block + t % block + 1 for t in range(s))
    far = sum(max(t // block - local + 1, 0) * block for t in range(s))
    pairs = 16 * (32 * near + 32 // 8 * far) + 16 * 32 * s * (s + 1) // 2
    found = flops(model, context=s)
    assert found.attention == 2 * 2 * 128 * pairs
    matrices = 32 * (4096 * 48 * 128 + 4096 * 4096 + 3 * 4096 * 14336) + 100352 * 4096
    assert found.weights == 2 * s * matrices
