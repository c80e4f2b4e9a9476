"""Phi: GPT-NeoX without biases of its own (1, 2), Llama with fused projections (3), blocks of keys at a stride
(3-small), sparse mixers (3.5 MoE)."""

from __future__ import annotations

from typing import Any

from gptcalc.sources.huggingface.fields import Fields, shown
from gptcalc.sources.huggingface.gpt_neo import GPT_NEOX, GPTJ, _plain
from gptcalc.sources.huggingface.llama import PREFIX
from gptcalc.sources.huggingface.mistral import MISTRAL, MIXTRAL
from gptcalc.sources.huggingface.pattern import stack
from gptcalc.sources.huggingface.reader import Hole, Reader, layernorm, number, optional, sites, size, when
from gptcalc.sources.huggingface.rope import rope
from gptcalc.sources.huggingface.tensors import GATE_UP, QKV, fused, in_layers

PHI = GPT_NEOX.but(
    defaults={"partial_rotary_factor": 0.5},
    document={
        "layers": "n*attn|mlp",
        "parallel_norm": None,
        "rope": rope(),
        "bias": ["attn", "mlp", "head"],
        "attn": {"qk_norm": when("qk_layernorm", "head")},
    },
    names={**_plain, **in_layers("model.layers.{l}.", {"mlp.up": "mlp.fc1", "mlp.down": "mlp.fc2"})},
)


def side_by_side(fields: Fields) -> str:
    """Attention and MLP of one norm, as the only block of the first code that was used is."""
    block = (fields.mapping("architecture") or {}).get("block_cls", "parallel")
    if block != "parallel":
        raise fields.unsupported("architecture.block_cls", f"only parallel is understood, found {shown(block)}")
    return "n*attn|mlp"


#: Phi-1, 1.5 and 2 as they were first published: GPT-J's words, and modules of flash-attention's code
PHI_FIRST = GPTJ.but(
    document={
        "n_kv_heads": optional("n_head_kv"),
        "layers": Hole(side_by_side),
        "rope": rope(fraction=None, channels="rotary_dim"),
        "bias": ["attn", "mlp", "head"],
    },
    defaults={
        "layer_norm_epsilon": 1e-5,
        "activation_function": "gelu_new",
        "n_positions": 2048,
        "rotary_dim": 32,
        "tie_word_embeddings": False,
    },
    irrelevant=("flash_attn", "flash_rotary", "fused_dense", "pad_vocab_size_multiple"),
    called=("MixFormerSequentialForCausalLM", "PhiForCausalLM"),
    names={
        "embedding.token": "transformer.embd.wte",
        **in_layers(
            "transformer.h.{l}.",
            {
                "attn.norm": "ln",
                "parallel.norm": "ln",
                **fused("mixer.Wqkv", QKV),
                "attn.out": "mixer.out_proj",
                "mlp.up": "mlp.fc1",
                "mlp.down": "mlp.fc2",
            },
        ),
        "final_norm": "lm_head.ln",
        "head": "lm_head.linear",
    },
)

PHI3 = MISTRAL.but(names=in_layers(PREFIX, {**fused("self_attn.qkv_proj", QKV), **fused("mlp.gate_up_proj", GATE_UP)}))


def two_experts(fields: Fields) -> int:
    """A sparse mixer chooses twice, whatever a config says; the vendor's own code allows nothing else."""
    if (given := fields.needed("num_experts_per_tok")) != 2:
        raise fields.unsupported("num_experts_per_tok", f"only 2 is understood, found {given}")
    return given


PHIMOE = MIXTRAL.but(
    document={
        "norm": layernorm("rms_norm_eps"),
        "bias": sites(attn="attention_bias", head="lm_head_bias"),
        "moe": {
            "n_experts": size("num_local_experts"),
            "top_k": Hole(two_experts),
            "router": "sparsemixer",
            "jitter": number("router_jitter_noise"),
            "normalize": False,
        },
    },
    irrelevant=("input_jitter_noise", "router_jitter_noise"),
    names=in_layers(PREFIX, {"moe.router": ("block_sparse_moe.gate", "mlp.router")}),
)


def inner_width(fields: Fields) -> int:
    """As it is, or so many times a third of the width, rounded up as its kernels like it."""
    times = fields.size("ff_dim_multiplier")
    if times is None or fields.values.get("ff_intermediate_size") is not None:
        return fields.needed("ff_intermediate_size")
    width = times * (fields.needed("hidden_size") // 3) * 2
    return -(-width // 256) * 256 if fields.flag("gegelu_pad_to_256") else width


def score_scale(fields: Fields) -> float | None:
    """A head's scores over its width instead of its root."""
    if not fields.flag("mup_use_scaling"):
        return None
    heads, width = fields.needed("num_attention_heads"), fields.needed("hidden_size")
    return (fields.number("mup_attn_multiplier") or 1) * heads / width


def inverse(name: str) -> Hole:
    return Hole(lambda fields: 1 / divisor if (divisor := fields.number(name)) else None)


def _dense_layers(fields: Fields, n: int) -> list[str]:
    """Every so many layers attend to all; none where the config has no number."""
    step = fields.size("dense_attention_every_n_layers", least=0)
    return ["full" if step and (i + 1) % step == 0 else "attn" for i in range(n)]


def _wholly_local(fields: Fields) -> dict[str, Any]:
    return {
        "block": fields.needed("blocksparse_block_size"),
        "local": fields.needed("blocksparse_num_local_blocks"),
        "stride": fields.needed("blocksparse_vert_stride"),
        "by_head": None if not fields.flag("blocksparse_homo_head_pattern") else False,
    }


#: gate and what it gates alternate, channel by channel
PAIRED = fused("mlp.up_proj", GATE_UP, groups="d_ff")

PHI3_SMALL = Reader(
    document={
        **{key: PHI3.document[key] for key in ("d", "v", "c", "n_heads", "n_layers", "n_kv_heads", "tying")},
        "d_ff": Hole(inner_width),
        "layers": stack(_dense_layers, "mlp"),
        "attn": {"strided": Hole(_wholly_local), "scale": Hole(score_scale)},
        "full": {"like": "attn", "strided": "none"},
        "mlp": {"activation": "swiglu_oai", "clamp": number("gegelu_limit")},
        "norm": layernorm("layer_norm_epsilon"),
        "bias": ["attn", "mlp"],
        "rope": rope("rope_embedding_base", fraction=None),
        "embedding": {"scale": number("mup_embedding_multiplier")},
        "logit_scale": inverse("mup_width_multiplier"),
    },
    # as configuration_phi3_small.py of its repository has them
    defaults={
        "vocab_size": 100352, "max_position_embeddings": 8192, "hidden_size": 4096, "num_hidden_layers": 32,
        "num_attention_heads": 32, "num_key_value_heads": 8, "hidden_act": "gegelu", "gegelu_limit": 20.0,
        "gegelu_pad_to_256": True, "ff_intermediate_size": 14336, "rope_embedding_base": 1e6,
        "blocksparse_homo_head_pattern": False, "blocksparse_block_size": 64, "blocksparse_num_local_blocks": 16,
        "blocksparse_vert_stride": 8, "dense_attention_every_n_layers": 2, "layer_norm_epsilon": 1e-5,
        "mup_use_scaling": True, "mup_width_multiplier": 8.0, "mup_embedding_multiplier": 10.0,
        "mup_attn_multiplier": 1.0, "tie_word_embeddings": True,
    },
    only={"hidden_act": "gegelu", "rope_position_scale": 1.0, "reorder_and_upcast_attn": False},
    irrelevant=frozenset({
        "blocksparse_triton_kernel_block_size", "pad_sequence_to_multiple_of_64", "embedding_dropout_prob",
        "attention_dropout_prob", "ffn_dropout_prob", "dummy_token_indices",
    }),
    names={
        "embedding.token": "model.embed_tokens",
        "final_norm": "model.final_layernorm",
        "head": "lm_head",
        **in_layers(
            PREFIX,
            {
                "attn.norm": "input_layernorm",
                **fused("self_attn.query_key_value", QKV, groups="n_kv_heads"),
                "attn.out": "self_attn.dense",
                "mlp.norm": "post_attention_layernorm",
                **PAIRED,
                "mlp.down": "mlp.down_proj",
            },
        ),
    },
)  # fmt: skip

READERS: dict[str, Reader] = {
    "phi3small": PHI3_SMALL,
    "phimoe": PHIMOE,
    "phi": PHI,
    **dict.fromkeys(("phi-msft", "mixformer-sequential"), PHI_FIRST),
    "phi3": PHI3,
    "phi4_multimodal": PHI3.but(irrelevant=("original_max_position_embeddings",)),
}
