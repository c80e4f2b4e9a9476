"""Layers that differ in heads and widths, each listed: OpenELM (arXiv:2404.14619, section 2.1) and DeciLM."""

from __future__ import annotations

from typing import Any

from gptcalc.errors import InputError
from gptcalc.sources.huggingface.fields import Fields, shown
from gptcalc.sources.huggingface.llama import LLAMA, PLAIN
from gptcalc.sources.huggingface.pattern import expression
from gptcalc.sources.huggingface.reader import Hole, Reader, activation, flag, rmsnorm, size, when
from gptcalc.sources.huggingface.rope import rope
from gptcalc.sources.huggingface.tensors import GATE_UP, QKV, fused, in_layers


def numbers(name: str, fields: Fields, n: int, *, whole: bool = True) -> list[Any]:
    """One positive number a layer."""
    given = fields.items(name)
    if given is None:
        raise fields.missing(name)
    if len(given) != n:
        raise InputError(f"{fields.within}{name} has {len(given)} entries, the model {n} layers")
    for i, value in enumerate(given):
        if isinstance(value, bool) or not isinstance(value, int if whole else (int, float)) or not 0 < value < 10**6:
            raise InputError(f"{fields.within}{name}[{i}]: expected a positive number, found {shown(value)}")
    return given


def divisible(value: float, divisor: int) -> int:
    """The nearest multiple, or the next where that is a tenth too small."""
    near = max(divisor, int(value + divisor / 2) // divisor * divisor)
    return near if near >= 0.9 * value else near + divisor


def layers(fields: Fields) -> dict[str, Any]:
    """A section for each pair of numbers of heads and for each width, and the layers that these make."""
    n, d = fields.needed("num_transformer_layers"), fields.needed("model_dim")
    heads, kv_heads = (numbers(name, fields, n) for name in ("num_query_heads", "num_kv_heads"))
    divisor = fields.needed("ffn_dim_divisor")
    widths = [divisible(factor * d, divisor) for factor in numbers("ffn_multipliers", fields, n, whole=False)]
    sections: dict[str, Any] = {}
    for q, k, width in zip(heads, kv_heads, widths, strict=True):
        sections[f"attn_{q}_{k}"] = {"like": "attn", "n_heads": q, "n_kv_heads": k}
        sections[f"mlp_{width}"] = {"like": "mlp", "d_ff": width}
    names = [f"attn_{q}_{k}+mlp_{width}" for q, k, width in zip(heads, kv_heads, widths, strict=True)]
    return {"layers": expression(names), **sections}


FUNCTION = "activation_fn_name"

OPENELM = Reader(
    document={
        "d": size("model_dim"),
        "v": size("vocab_size"),
        "c": size("max_context_length"),
        "n_layers": size("num_transformer_layers"),
        "n_heads": Hole(lambda fields: max(fields.items("num_query_heads") or [1])),
        "d_head": size("head_dim"),
        "tying": flag("share_input_output_layers"),
        "rope": rope("rope_freq_constant", fraction=None),
        "norm": rmsnorm(1e-6),
        "attn": {"qk_norm": when("normalize_qk_projections", "head")},
        "mlp": when(
            "ffn_with_glu", activation("activation_fn_name", gated=True), activation("activation_fn_name", gated=False)
        ),
        "searched": Hole(layers),
    },
    defaults={
        "vocab_size": 32000,
        "max_context_length": 2048,
        "head_dim": 128,
        "ffn_dim_divisor": 256,
        FUNCTION: "swish",
        "normalize_qk_projections": False,
        "share_input_output_layers": False,
        "ffn_with_glu": True,
        "rope_freq_constant": 10000,
    },
    only={"normalization_layer_name": "rms_norm"},
    irrelevant=frozenset({"num_gqa_groups", "qkv_multipliers", "rope_max_length"}),
    names={
        "embedding.token": "transformer.token_embeddings",
        **in_layers(
            "transformer.layers.{l}.",
            {
                "attn.norm": "attn_norm",
                **fused("attn.qkv_proj", QKV),
                "attn.q_norm": "attn.q_norm",
                "attn.k_norm": "attn.k_norm",
                "attn.out": "attn.out_proj",
                "mlp.norm": "ffn_norm",
                **fused("ffn.proj_1", GATE_UP),
                "mlp.down": "ffn.proj_2",
            },
        ),
        "final_norm": "transformer.norm",
        "head": "lm_head",
    },
)


def kv_heads(fields: Fields) -> dict[str, Any]:
    """A section for each number of KV heads."""
    listed = numbers("num_key_value_heads_per_layer", fields, fields.needed("num_hidden_layers"))
    sections = {f"attn_{k}": {"like": "attn", "n_kv_heads": k} for k in listed}
    return {"layers": expression([f"attn_{k}+mlp" for k in listed]), **sections}


DECI = LLAMA.but(
    document={"n_kv_heads": None, "layers": None, "searched": Hole(kv_heads)},
    defaults={**PLAIN, "rms_norm_eps": 1e-5},
    irrelevant=("num_key_value_heads",),
    called=("DeciLMForCausalLM",),
)

READERS: dict[str, Reader] = {
    "openelm": OPENELM,
    "deci": DECI,
}
