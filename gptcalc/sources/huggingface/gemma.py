"""Gemma: norms whose stored weight is the scale minus one, embeddings scaled by √d, a tied head."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from msgspec.structs import replace

from gptcalc.errors import InputError
from gptcalc.sources.huggingface.fields import Fields
from gptcalc.sources.huggingface.llama import LLAMA, PREFIX
from gptcalc.sources.huggingface.pattern import FULL, SLIDING, every, listed, stack
from gptcalc.sources.huggingface.reader import (
    SEARCHED,
    Hole,
    Reader,
    activation,
    flag,
    number,
    optional,
    rmsnorm,
    sites,
    size,
    when,
)
from gptcalc.sources.huggingface.rope import rope
from gptcalc.sources.huggingface.tensors import EXPERTS_GATE_UP, Entry, Held, bare, in_layers
from gptcalc.sources.huggingface.windows import TYPES

#: norms in front of and behind each sublayer
SANDWICH_NAMES = in_layers(
    PREFIX,
    {
        "attn.post_norm": "post_attention_layernorm",
        "mlp.norm": "pre_feedforward_layernorm",
        "mlp.post_norm": "post_feedforward_layernorm",
    },
)


def query_scale(fields: Fields) -> float | None:
    scalar = fields.number("query_pre_attn_scalar")
    if scalar is not None and scalar <= 0:
        fields.wrong(["query_pre_attn_scalar"], "a number above 0", scalar)
    return None if scalar is None else float(scalar) ** -0.5


GEMMA = LLAMA.but(
    document={
        "norm": rmsnorm(offset=1),
        "mlp": activation("hidden_activation", "hidden_act", gated=True),
        "embedding": {"scale": "sqrt(d)"},
        "bias": sites(attn="attention_bias"),
    },
    only={"use_bidirectional_attention": (False, True)},  # PaliGemma's prompt sees itself whole; counted as causal
)

GEMMA2 = GEMMA.but(
    document={
        "layers": stack(listed("layer_types", TYPES, every(2, "attn", "local")), "mlp"),
        "norm_at": "sandwich",
        "attn": {"scale": Hole(query_scale), "softcap": number("attn_logit_softcapping")},
        "local": {"like": "attn", "window": size("sliding_window")},
        "softcap": number("final_logit_softcapping"),
    },
    only={"use_bidirectional_attention": False},
    irrelevant=("cache_implementation", "sliding_window_pattern"),
    names=SANDWICH_NAMES,
)


def window(fields: Fields) -> int:
    """Half as wide on each side, the token's own in both, where tokens see those behind them, too (EmbeddingGemma)."""
    width = fields.needed("sliding_window")
    return width // 2 + 1 if fields.flag("use_bidirectional_attention") else width


GEMMA3 = GEMMA2.but(
    defaults={"sliding_window_pattern": 6, "rope_theta": 1000000.0, "rope_local_base_freq": 10000.0},
    document={
        "layers": stack(listed("layer_types", TYPES, every("sliding_window_pattern", "attn", "local")), "mlp"),
        "rope": rope(by_layer=True),
        "causal": when("use_bidirectional_attention", False),
        "attn": {"scale": Hole(query_scale), "qk_norm": "head"},
        "local": {
            "like": "attn",
            "window": Hole(window),
            "rope": rope("rope_local_base_freq", layer_type=SLIDING, scaled=False, by_layer=True),
        },
    },
    irrelevant=("attn_logit_softcapping",),  # transformers' class takes it over from Gemma 2 and never applies it
)


def of_full_layers(name: str, flat: str) -> Hole:
    """A size of the full layers: a field of its own, or the same in the per_layer_config of each of them."""

    def read(fields: Fields) -> int | None:
        own = fields.size(flat)
        layers = (fields.mapping("per_layer_config") or {}).values()
        given = [layer[name] for layer in layers if isinstance(layer, Mapping) and name in layer]
        if not given:
            return fields.size(name) if "per_layer_config" in fields.values else own
        if any(value != given[0] for value in given) or (fields.present(flat) and own != given[0]):
            raise fields.unsupported("per_layer_config", f"layers with different {name} are not understood")
        return Fields({name: given[0]}, {}, fields.model_type, f"{fields.within}per_layer_config.").size(name)

    return Hole(read)


def kv_heads_of_full_layers(fields: Fields) -> int | None:
    given = of_full_layers("num_key_value_heads", "num_global_key_value_heads").read(fields)
    return given if fields.flag("attention_k_eq_v") else None


def sharing(fields: Fields, n: int) -> Sequence[str]:
    """The last num_kv_shared_layers reuse the keys and values of the last layer of their kind before them."""
    kinds = list(TYPED(fields, n))
    kinds[-1] = "attn"
    return reusing(fields, kinds)


def last_sees_all(fields: Fields, n: int) -> Sequence[str]:
    return [*list(TYPED(fields, n))[:-1], "attn"]


def reusing(fields: Fields, kinds: Sequence[str]) -> Sequence[str]:
    """These layers, the last of them with the keys and values of earlier ones."""
    n = len(kinds)
    shared = fields.size("num_kv_shared_layers", least=0) or 0
    if shared >= n:
        raise InputError(f"{fields.within}num_kv_shared_layers = {shared} leaves none of {n} layers to share from")
    reuse = {"attn": "reuse", "local": "local_reuse"}
    return [reuse[kind] if i >= n - shared else kind for i, kind in enumerate(kinds)]


def feed_forward(fields: Fields, n: int) -> Sequence[str]:
    """Twice the width where keys and values are reused, if the config says so; experts beside the MLP."""
    shared = fields.size("num_kv_shared_layers", least=0) or 0
    wide = fields.flag("use_double_wide_mlp")
    experts = "|moe" if fields.flag("enable_moe_block") else ""
    return [("wide" if wide and i >= n - shared else "mlp") + experts for i in range(n)]


TYPED = listed("layer_types", TYPES, every(6, "attn", "local"))

PER_LAYER_EMBEDDING = when(
    optional("hidden_size_per_layer_input", least=0),
    {
        "v": size("vocab_size_per_layer_input"),
        "d": size("hidden_size_per_layer_input"),
        "activation": activation("hidden_activation", gated=False),
    },
)

PER_LAYER_NAMES = {
    "ple.token": "model.embed_tokens_per_layer",
    "ple.projection": "model.per_layer_model_projection",
    "ple.norm": "model.per_layer_projection_norm",
    **in_layers(
        PREFIX,
        {
            "ple.gate": "per_layer_input_gate",
            "ple.out": "per_layer_projection",
            "ple.post_norm": "post_per_layer_input_norm",
        },
    ),
}

REUSE = {"like": "attn", "kv": {"from": "attn"}}

LOCAL_REUSE = {"like": "local", "kv": {"from": "local"}}

GEMMA4 = GEMMA.but(
    document={
        "d_head": None,
        "n_kv_heads": None,
        "layers": stack(sharing, feed_forward),
        "rope": rope(1000000),
        "norm": rmsnorm(),
        "norm_at": "sandwich",
        "parallel_norm": when("enable_moe_block", "separate"),
        "parallel_out_norm": flag("enable_moe_block"),
        "softcap": number("final_logit_softcapping"),
        "layer_scalar": True,
        "per_layer_embedding": PER_LAYER_EMBEDDING,
        "local": {
            "like": "attn",
            "n_kv_heads": size("num_key_value_heads"),
            "d_head": size("head_dim"),
            "d_v": size("head_dim"),
            "k_eq_v": False,
            "window": size("sliding_window"),
            "rope": rope(10000, layer_type=SLIDING, scaled=False),
        },
        "attn": {
            "n_kv_heads": Hole(lambda f: kv_heads_of_full_layers(f) or f.needed("num_key_value_heads")),
            "d_head": of_full_layers("head_dim", "global_head_dim"),
            "k_eq_v": flag("attention_k_eq_v"),
            "scale": 1.0,
            "qk_norm": "head",
            "v_norm": {"weight": False, "eps": number("rms_norm_eps")},
        },
        "reuse": REUSE,
        "local_reuse": LOCAL_REUSE,
        "wide": {"like": "mlp", "d_ff": Hole(lambda f: 2 * f.needed("intermediate_size"))},
        "moe": {
            "n_experts": size("num_experts"),
            "top_k": size("top_k_experts"),
            "d_ff": size("moe_intermediate_size"),
            "router_scale": True,
        },
    },
    defaults={
        "global_head_dim": 512,
        "rope_parameters": {
            FULL: {"rope_type": "proportional", "rope_theta": 1000000.0, "partial_rotary_factor": 0.25},
            SLIDING: {"rope_theta": 10000.0},
        },
    },
    only={"use_bidirectional_attention": (False, "vision")},
    irrelevant=("rope_theta", "num_global_key_value_heads", "moe_intermediate_size", "num_experts", "top_k_experts"),
    names={
        **SANDWICH_NAMES,
        **PER_LAYER_NAMES,
        **in_layers(
            PREFIX,
            {
                "mlp.post_norm": ("post_feedforward_layernorm_1", "post_feedforward_layernorm"),
                "moe.norm": "pre_feedforward_layernorm_2",
                "moe.post_norm": "post_feedforward_layernorm_2",
                "parallel.out_norm": "post_feedforward_layernorm",
                "moe.router": "router.proj",
                "moe.router_scale": bare("router.scale"),
                "moe.expert_scale": bare("router.per_expert_scale"),
                "moe.gate": bare("experts.gate_up_proj", parts=EXPERTS_GATE_UP),
                "moe.up": bare("experts.gate_up_proj", parts=EXPERTS_GATE_UP),
                "moe.down": bare("experts.down_proj"),
                "layer_scalar": bare("layer_scalar"),
            },
        ),
    },
)

TYPED_3N = listed("layer_types", TYPES, every(5, "attn", "local"))


def each_layer(name: str, fields: Fields, n: int, otherwise: Sequence[float]) -> list[float]:
    """A number for each layer: the field has one for all, or a list."""
    value = fields.get(name)
    if value is None:
        return list(otherwise)
    values = list(value) if isinstance(value, (list, tuple)) else [value] * n
    if len(values) != n:
        raise InputError(f"{fields.within}{name} has {len(values)} entries, the model {n} layers")
    for i, item in enumerate(values):
        if isinstance(item, bool) or not isinstance(item, (int, float)) or not abs(item) < float("inf"):
            fields.wrong((f"{name}[{i}]",), "a number", item)
    return values


def feed_forward_3n(fields: Fields, n: int) -> tuple[list[str], dict[str, Any]]:
    """The section of each layer's MLP, and all such sections: one for each width and sparsity."""
    widths = each_layer("intermediate_size", fields, n, ())
    if not widths:
        raise InputError(f"{fields.within}intermediate_size is missing")
    for width in widths:
        if width != int(width) or width < 1:
            fields.wrong(("intermediate_size",), "positive integers", width)
    widths = [int(width) for width in widths]
    dense_from = 10 if n > 10 else 0
    sparsities = each_layer("activation_sparsity_pattern", fields, n, [0.95] * dense_from + [0.0] * (n - dense_from))
    usual = max(widths, key=widths.count)
    several = len({sparsity for sparsity in sparsities if sparsity}) > 1
    names: list[str] = []
    sections: dict[str, Any] = {}
    for width, sparsity in zip(widths, sparsities, strict=True):
        percent = f"{100 * sparsity:g}".replace(".", "_") if several else ""
        name = (f"sparse{percent}" if sparsity else "mlp") + (f"_{width}" if width != usual else "")
        differs = {"d_ff": width} if width != usual else {}
        if name != "mlp":
            sections[name] = {"like": "mlp", **differs, **({"sparsity": sparsity} if sparsity else {})}
        names.append(name)
    return names, {"d_ff": usual, **sections}


GEMMA3N = GEMMA3.but(
    document={
        "layers": stack(lambda f, n: reusing(f, TYPED_3N(f, n)), lambda f, n: feed_forward_3n(f, n)[0]),
        "d_ff": None,
        SEARCHED: Hole(lambda f: feed_forward_3n(f, f.needed("num_hidden_layers"))[1]),
        "norm": rmsnorm(),
        "per_layer_embedding": PER_LAYER_EMBEDDING,
        "altup": {
            "n": size("altup_num_inputs"),
            "active": optional("altup_active_idx", least=0),
            "scale": flag("altup_correct_scale"),
        },
        "attn": {
            "scale": 1.0,
            "qk_norm": "head",
            "v_norm": {"weight": False, "eps": number("rms_norm_eps")},
            "laurel": {"rank": size("laurel_rank")},
        },
        "reuse": REUSE,
        "local_reuse": LOCAL_REUSE,
    },
    irrelevant=("altup_coef_clip",),  # of training
    names={
        **PER_LAYER_NAMES,
        "altup.projection": "model.altup_projections.{e}",
        "altup.out": "model.altup_unembed_projections.{e}",
        **in_layers(
            PREFIX,
            {
                "altup.router": "altup.modality_router",
                "altup.router_norm": "altup.router_norm",
                "altup.prediction": "altup.prediction_coefs",
                "altup.correction": "altup.correction_coefs",
                "altup.output_scale": bare("altup.correct_output_scale"),
                "attn.laurel.left": "laurel.linear_left",
                "attn.laurel.right": "laurel.linear_right",
                "attn.laurel.norm": "laurel.post_laurel_norm",
            },
        ),
    },
)

VAULTGEMMA = GEMMA2.but(document={"norm_at": "pre"}, names=in_layers(PREFIX, {"mlp.norm": "pre_feedforward_layernorm"}))


def of_the_decoder(entry: Entry) -> Entry:
    """The place in a model whose decoder has all weights."""
    if isinstance(entry, str):
        return entry.replace("model.", "model.decoder.", 1)
    if isinstance(entry, Held):
        return replace(entry, module=entry.module.replace("model.", "model.decoder.", 1))
    return tuple(of_the_decoder(one) for one in entry)  # type: ignore[misc]


#: text is read as in Gemma 4, whose experts are always there, and is written in blocks that are denoised
DIFFUSION_GEMMA = GEMMA4.but(
    document={
        "layers": stack(last_sees_all, "mlp|moe"),
        "parallel_norm": "separate",
        "parallel_out_norm": True,
        "per_layer_embedding": None,
        "attn": {
            **GEMMA4.document["attn"],
            "n_kv_heads": of_full_layers("num_key_value_heads", "num_global_key_value_heads"),
            "k_eq_v": True,
        },
        "reuse": None,
        "local_reuse": None,
        "wide": None,
        "canvas": {
            "length": size("canvas_length"),
            "d_ff": size("intermediate_size"),
            "activation": activation("hidden_activation", gated=True),
        },
    },
    defaults={"canvas_length": 256, "final_logit_softcapping": 30.0},
    beyond=("canvas_length",),
    names={
        **{stem: of_the_decoder(entry) for stem, entry in GEMMA4.names.items() if not stem.startswith("ple.")},
        "canvas.norm": "model.decoder.self_conditioning.pre_norm",
        **{f"canvas.{key}": f"model.decoder.self_conditioning.{key}_proj" for key in ("gate", "up", "down")},
        **in_layers("model.decoder.layers.{l}.", {"canvas.layer_scalar": bare("layer_scalar")}),
        **in_layers("model.encoder.language_model.layers.{l}.", {"layer_scalar": bare("layer_scalar")}),
    },
)

READERS: dict[str, Reader] = {
    "diffusion_gemma_text": DIFFUSION_GEMMA,
    "gemma": GEMMA,
    "gemma2": GEMMA2,
    "gemma3_text": GEMMA3,
    "gemma3n_text": GEMMA3N,
    "gemma4_text": GEMMA4,
    "gemma4_unified_text": GEMMA4,
    "vaultgemma": VAULTGEMMA,
}
