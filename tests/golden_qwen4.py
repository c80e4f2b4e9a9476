"""How tests/golden/qwen4_exp was made: by hand, where Hugging Face transformers is.

    python -m tests.golden_qwen4 FOLDER

as tests/golden_loops.py says.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from transformers.models.qwen4_exp.configuration_qwen4_exp import Qwen4ExpTextConfig
from transformers.models.qwen4_exp.modeling_qwen4_exp import Qwen4ExpForCausalLM

from tests.golden_loops import make


def qwen4_exp() -> Any:
    """Four layers: three delta nets, of which the second and the third look n-grams up, and attention to chosen
    blocks of two keys."""
    config = Qwen4ExpTextConfig(
        vocab_size=97, hidden_size=32, num_hidden_layers=4, num_attention_heads=4, num_key_value_heads=2, head_dim=16,
        max_position_embeddings=64, linear_key_head_dim=8, linear_value_head_dim=12, linear_num_key_heads=2,
        linear_num_value_heads=4, linear_conv_kernel_dim=3, moe_intermediate_size=20,
        shared_expert_intermediate_size=24, num_experts=6, num_experts_per_tok=2, hc_count=3, hc_lowrank=10,
        ple_layer_ids=[2, 3], ple_embed_dim=24, ple_conv_kernel_size=3, ngram_size=3, heads_per_ngram=2,
        ngram_vocab_size_base=50, make_ngram_vocab_size_divisible_by=16, split_ngram_parts=1, indexer_n_heads=3,
        indexer_kv_heads=1, indexer_head_dim=12, indexer_budget=4, indexer_compress_ratio=2, eos_token_id=41,
        rope_parameters={"rope_type": "default", "rope_theta": 10000.0, "partial_rotary_factor": 0.5,
                         "mrope_section": [2, 1, 1]},
    )  # fmt: skip
    return Qwen4ExpForCausalLM(config)


if __name__ == "__main__":
    make(qwen4_exp, Path(sys.argv[1]))
