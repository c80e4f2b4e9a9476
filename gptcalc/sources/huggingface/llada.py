"""Masked diffusion: decoders that see all tokens and guess those that are masked. LLaDA is OLMo's first code with a
gated MLP, Dream is Qwen 2."""

from __future__ import annotations

from gptcalc.sources.huggingface.heads import DECODERS
from gptcalc.sources.huggingface.llama import LLAMA
from gptcalc.sources.huggingface.qwen import QWEN2
from gptcalc.sources.huggingface.reader import Reader, activation, flag, optional, preferred, rmsnorm, sites, size
from gptcalc.sources.huggingface.tensors import in_layers

LLADA = LLAMA.but(
    document={
        "causal": False,
        "d": size("d_model"),
        "v": preferred("embedding_size", "vocab_size"),
        "c": size("max_sequence_length"),
        "n_heads": size("n_heads"),
        "n_layers": size("n_layers"),
        "n_kv_heads": optional("n_kv_heads"),
        "d_head": None,
        "d_ff": size("mlp_hidden_size"),
        "layers": "n*attn+mlp",
        "tying": flag("weight_tying"),
        "norm": rmsnorm(),
        "mlp": activation("activation_type", gated=True),
        "bias": sites(qkv=flag("include_qkv_bias", "include_bias"), out="include_bias", mlp="include_bias"),
    },
    # as configuration_llada.py of its repository has them
    defaults={
        "activation_type": "silu",
        "rms_norm_eps": 1e-5,
        "rope_theta": 10000.0,
        "include_bias": False,
        "include_qkv_bias": False,
        "weight_tying": False,
    },
    only={
        "block_type": "llama",
        "layer_norm_type": "rms",
        "rope": True,
        "alibi": False,
        "attention_layer_norm": False,
        "bias_for_layer_norm": False,
        "input_emb_norm": False,
        "scale_logits": False,
        "layer_norm_with_affine": True,
        "block_group_size": 1,
        "multi_query_attention": False,
    },
    irrelevant=(
        "mlp_ratio",
        "alibi_bias_max",
        "attention_layer_norm_with_affine",
        "flash_attention",
        "rope_full_precision",
        "precision",
    ),
    called=("LLaDAModelLM",),
    classes={**DECODERS, "ModelLM": {}},
    names={
        "embedding.token": "model.transformer.wte",
        **in_layers(
            "model.transformer.blocks.{l}.",
            {
                "attn.norm": "attn_norm",
                "attn.q": "q_proj",
                "attn.k": "k_proj",
                "attn.v": "v_proj",
                "attn.out": "attn_out",
                "mlp.norm": "ff_norm",
                "mlp.gate": "ff_proj",
                "mlp.up": "up_proj",
                "mlp.down": "ff_out",
            },
        ),
        "final_norm": "model.transformer.ln_f",
        "head": "model.transformer.ff_out",
    },
)

#: its class is called a bare model's name, and has an output matrix
DREAM = QWEN2.but(
    document={"causal": False},
    like="qwen2",
    called=("DreamModel",),
    classes={**DECODERS, "Model": {}},
)

READERS: dict[str, Reader] = {"llada": LLADA, "Dream": DREAM}
