"""Nemotron-H and Nemotron 3: every layer is one sublayer, Mamba-2, attention, an MLP or experts."""

from __future__ import annotations

from typing import Any

from gptcalc.sources.huggingface.experts import SIGMOID
from gptcalc.sources.huggingface.fields import Fields, shown
from gptcalc.sources.huggingface.llama import LLAMA
from gptcalc.sources.huggingface.mamba import HEADS, MAMBA_OR_ATTENTION, biases, convolved, mamba2_names
from gptcalc.sources.huggingface.pattern import FULL, RECURRENT, expression
from gptcalc.sources.huggingface.reader import Hole, Reader, activation, number, optional, rmsnorm, sites, size
from gptcalc.sources.huggingface.tensors import bare, in_layers

LETTERS = {"M": "mamba2", "*": "attn", "-": "mlp", "E": "moe"}
WORDS = {**MAMBA_OR_ATTENTION, "mlp": "mlp", "moe": "moe"}


def single(fields: Fields) -> list[str]:
    """Which sublayer each layer is: by a list of words, or a pattern of letters."""
    pattern = fields.word("hybrid_override_pattern")
    listed = fields.present("layers_block_type", "layer_types") or pattern is None
    words = fields.items("layers_block_type", "layer_types") if listed else None
    fields.asked += ("layers_block_type", "layer_types")
    given, known = (words, WORDS) if words is not None else (list(pattern or ""), LETTERS)
    for i, word in enumerate(given):
        if word not in known:
            raise fields.unsupported(f"layers_block_type[{i}]", f"layer type {shown(word)} is not understood")
    n = fields.size("num_hidden_layers")
    if n is not None and n != len(given):
        fields.notes.append(
            f"{fields.within}num_hidden_layers = {n} gives way to the {len(given)} layers of the pattern"
        )
    return [known[word] for word in given]


def latent(fields: Fields) -> int | None:
    """The width in which the routed experts work; its two projections have no biases in a document."""
    width = fields.size("moe_latent_size")
    if width is not None and fields.flag("mlp_bias"):
        raise fields.unsupported("mlp_bias", "biases of moe_latent_size's projections are not understood")
    return width


def shared_width(fields: Fields) -> int:
    """Of the shared experts; where the config says none, that of the dense layers."""
    return fields.size("moe_shared_expert_intermediate_size", least=0) or fields.needed("intermediate_size")


def predicting(fields: Fields) -> dict[str, Any] | None:
    """Multi-token-prediction modules: blocks of the sublayers that a pattern lists."""
    n = fields.size("num_nextn_predict_layers", least=0)
    words, pattern = fields.items("mtp_layers_block_type"), fields.word("mtp_hybrid_override_pattern")
    if not n:
        return None
    given = [LETTERS.get(x, x) for x in pattern] if pattern else [WORDS.get(x, x) for x in words or (FULL, "moe")]
    return {"n": n, "block": "+".join(given)}


NEMOTRON_H = LLAMA.but(
    document={
        "n_layers": Hole(lambda fields: len(single(fields))),
        "layers": Hole(lambda fields: expression(single(fields))),
        "position": "none",
        "rope": None,
        "norm": rmsnorm("layer_norm_epsilon"),
        "mlp": activation("mlp_hidden_act", gated=False),
        "bias": sites(attn="attention_bias", mlp="mlp_bias"),
        **HEADS,
        "mamba2": {
            "n_heads": size("mamba_num_heads"),
            "d_head": size("mamba_head_dim"),
            "d_state": size("ssm_state_size"),
            "kernel": convolved(size("conv_kernel", "mamba_d_conv"), "mamba_hidden_act"),
            "n_groups": size("n_groups", "mamba_n_groups"),
            "bias": biases(("use_conv_bias", "mamba_conv_bias"), "use_bias", "use_bias"),
            "out_norm": {},
            "dt_min": number("time_step_min", "mamba_dt_min"),
            "chunk": size("chunk_size", "mamba_chunk_size"),
        },
        "moe": {
            **SIGMOID,
            "n_shared": optional("n_shared_experts", least=0),
            "d_shared": Hole(shared_width),
            "d_latent": Hole(latent),
            "bias": Hole(lambda fields: ["shared"] if fields.flag("mlp_bias") else None),
        },
        "mtp": Hole(predicting),
    },
    defaults={"time_step_min": 0.001, "layers_block_type": [RECURRENT, "moe", FULL, "mlp"]},
    irrelevant=(
        "attention_head_dim", "expand", "head_dim", "intermediate_size", "layer_types", "mamba_expand",
        "mamba_proj_bias", "mlp_bias", "moe_shared_expert_intermediate_size",
        "moe_shared_expert_overlap", "mtp_layers_block_type", "norm_eps", "num_hidden_layers", "num_query_groups",
        "partial_rotary_factor", "rescale_layers", "rms_norm_eps", "rope_parameters", "rope_theta", "sliding_window",
        "time_step_min", "time_step_rank",
    ),
    names={
        "embedding.token": ("backbone.embeddings", "backbone.embedding", "model.embeddings"),
        "final_norm": ("backbone.norm_f", "model.norm_f"),
        **in_layers(
            "backbone.layers.{l}.",
            {
                **{f"{kind}.norm": "norm" for kind in ("mamba2", "attn", "mlp", "moe")},
                **{f"attn.{x}": f"mixer.{x}_proj" for x in "qkv"},
                "attn.out": "mixer.o_proj",
                "mlp.up": "mixer.up_proj",
                "mlp.down": "mixer.down_proj",
                "moe.router": "mixer.gate",
                "moe.selection_bias": bare("mixer.gate.e_score_correction_bias"),
                "moe.up": ("mixer.experts.{e}.up_proj", bare("mixer.experts.up_proj")),
                "moe.down": ("mixer.experts.{e}.down_proj", bare("mixer.experts.down_proj")),
                "moe.shared.up": "mixer.shared_experts.up_proj",
                "moe.shared.down": "mixer.shared_experts.down_proj",
                "moe.latent_down": "mixer.fc1_latent_proj",
                "moe.latent_up": "mixer.fc2_latent_proj",
                **mamba2_names("mixer"),
            },
        ),
    },
)  # fmt: skip

READERS: dict[str, Reader] = {"nemotron_h": NEMOTRON_H}
