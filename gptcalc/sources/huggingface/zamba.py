"""Zamba and Zamba2: Mamba layers, before some of which a transformer block runs whose weights they share."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from gptcalc.errors import InputError
from gptcalc.sources.huggingface.fields import Fields
from gptcalc.sources.huggingface.llama import LLAMA, PREFIX
from gptcalc.sources.huggingface.mamba import (
    EXPANDED,
    FEED_FORWARD,
    biases,
    low_rank,
    mamba2,
    mamba2_names,
    mamba_names,
    share,
)
from gptcalc.sources.huggingface.pattern import MOST_LISTED, expression, listed
from gptcalc.sources.huggingface.reader import SEARCHED, Hole, Reader, activation, optional, size, when
from gptcalc.sources.huggingface.rope import rope
from gptcalc.sources.huggingface.tensors import Entry, Held, Names, fused, in_layers, likeliest

#: words for a layer: the second has the shared block in front of its Mamba
ALONE, HYBRID = "linear_attention", "hybrid"
_WORDS = {ALONE: ALONE, "mamba": ALONE, HYBRID: HYBRID}


def period(fields: Fields, n: int) -> Sequence[str]:
    """Zamba: the third layer, and from there on every one whose number leaves a rest."""
    step, rest = fields.needed("attn_layer_period"), fields.size("attn_layer_offset", least=0) or 0
    return [ALONE, ALONE, HYBRID, *(HYBRID if i % step == rest else ALONE for i in range(n - 3))][:n]


def unlisted(fields: Fields, n: int) -> Sequence[str]:
    """Zamba2's class has a list for 54 layers."""
    if n != 54:
        raise fields.missing("layers_block_type")
    chosen = {6, 12, 18, 24, 30, 36, 42, 47, 51}
    return [HYBRID if i in chosen else ALONE for i in range(n)]


def in_turn(mamba: str, otherwise: Callable[[Fields, int], Sequence[str]], blocks: str | None = None) -> Hole:
    """The layers, with as many shared blocks as a field says, in turn."""

    def read(fields: Fields) -> dict[str, Any]:
        n = fields.needed("num_hidden_layers")
        if n > MOST_LISTED:
            raise InputError(f"{fields.within}num_hidden_layers = {n}: layers are read up to {MOST_LISTED}")
        words = listed("layers_block_type", _WORDS, otherwise)(fields, n)
        turns = min(1 if blocks is None else fields.needed(blocks), list(words).count(HYBRID))  # fewer in a cut copy
        names = [("attn", "mlp"), *((f"attn_{k}", f"mlp_{k}") for k in range(2, turns + 1))]
        found, used = [], 0
        for word in words:
            found.append(mamba if word == ALONE else "+".join((*names[used % turns], mamba)))
            used += word == HYBRID
        sections = {name: {"like": name.partition("_")[0]} for pair in names[1:] for name in pair}
        return {"layers": expression(found), **sections}

    return Hole(read)


def head_width(fields: Fields) -> int:
    """Of 2·d channels."""
    whole, heads = 2 * fields.needed("hidden_size"), fields.needed("num_attention_heads")
    width = fields.size("attention_hidden_size") or whole
    if width != whole:
        raise InputError(f"{fields.within}attention_hidden_size: {width} channels are not twice the {whole // 2}")
    given = fields.size("attention_head_dim", "head_dim")
    if given is None and whole % heads:
        raise InputError(f"{fields.within}num_attention_heads: {whole} channels in {heads} heads")
    return given or whole // heads


def inner_width(fields: Fields) -> int:
    return fields.size("intermediate_size") or 4 * fields.needed("hidden_size")


#: the block reads stream and embedding, and what it gives is added to what Mamba reads, not to the stream
_attention: dict[str, Any] = {
    "tied": True,
    "goal": "next",
    "with_embedding": True,
    "n_kv_heads": optional("num_key_value_heads"),
    "d_head": Hole(head_width),
    "scale": Hole(lambda fields: float((head_width(fields) / 2) ** -0.5)),
}
_mlp: dict[str, Any] = {
    "tied": True,
    "goal": "next_sum",
    "projected": True,
    "activation": activation("hidden_act", gated=True),
}


def _in_both(mamba: Names) -> Names:
    """A Mamba layer's names, which in hybrid layers stand one deeper."""
    both: dict[str, Entry] = {}
    for stem, entry in mamba.items():
        held = likeliest(entry)
        more = {"parts": held.parts, "groups": held.groups, "stored": held.stored}
        words: dict[str, Any] = {**more, "weight": held.weight, "bias": held.bias}
        both[stem] = (Held(f"mamba_decoder.{held.module}", beside="attn", **words), Held(held.module, **words))
    return in_layers(PREFIX, both)


def _shared(block: str, feed_forward: Names) -> Names:
    """The shared block's names, and those of the projection behind it."""
    attention = {f"attn.{key}": f"self_attn.{key[0]}_proj" for key in ("q", "k", "v", "out")}
    inner = {"attn.norm": "input_layernorm", **attention, "mlp.norm": "pre_ff_layernorm", **feed_forward}
    return {**in_layers(f"{PREFIX}{block}.", inner), "mlp.projection": f"{PREFIX}linear"}


ZAMBA = LLAMA.but(
    document={
        "layers": None,
        "d_head": None,
        "n_kv_heads": None,
        "bias": None,
        "rope": None,
        "position": "none",
        SEARCHED: in_turn("mamba", period),
        "attn": _attention,
        "mlp": _mlp,
        "mamba": {
            "d_inner": EXPANDED,
            "d_state": size("mamba_d_state"),
            "dt_rank": low_rank("mamba_dt_rank"),
            "kernel": size("mamba_d_conv"),
            "n_heads": size("n_mamba_heads"),
            "bias": biases("mamba_conv_bias", "mamba_proj_bias", "mamba_proj_bias"),
        },
    },
    only={"hidden_mamba_act": "silu"},
    irrelevant=("use_associative_scan", "use_mambapy", "num_logits_to_keep"),
    names={
        "final_norm": "model.final_layernorm",
        **_in_both(
            {
                **mamba_names("mamba"),
                **fused("mamba.in_proj", (("mamba.x", 1), ("mamba.z", 1)), groups="d_inner"),
                **fused(
                    "mamba.x_proj",
                    (("mamba.dt_a", "dt_rank"), ("mamba.B", "d_state"), ("mamba.C", "d_state")),
                    weight="_weight",
                ),
                "mamba.dt_b": Held("mamba.dt_proj", weight="_weight", bias="_bias"),
                "mamba.norm": "input_layernorm",
            }
        ),
        **_shared("shared_transf", {stem: name for stem, name in FEED_FORWARD.items() if stem != "mlp.norm"}),
    },
)


def adapter_of_attention(fields: Fields) -> int | None:
    rank = fields.needed("adapter_rank")
    return rank if fields.flag("use_shared_attention_adapter") else None


_adapters = PREFIX.replace("{l}", "{first}") + "shared_transformer."

ZAMBA2 = ZAMBA.but(
    document={
        SEARCHED: in_turn("mamba2", unlisted, "num_mem_blocks"),
        "d_ff": Hole(inner_width),
        "attn": {
            **_attention,
            "adapter_rank": Hole(adapter_of_attention),
            "position": when("use_mem_rope", "rope", "none"),
            "rope": when("use_mem_rope", rope()),
        },
        "mlp": {
            **_mlp,
            "adapter_rank": size("adapter_rank"),
            "bias": Hole(lambda fields: ["gate", "up", "down"] if fields.flag("add_bias_linear") else []),
        },
        "mamba2": mamba2(
            EXPANDED,
            n_heads=size("n_mamba_heads"),
            d_head=share("n_mamba_heads", EXPANDED, "mamba_headdim"),
            n_groups=size("mamba_ngroups"),
            kernel=size("mamba_d_conv"),  # behind it SiLU, whatever hidden_act says
            bias=biases(True, "add_bias_linear", "add_bias_linear"),
            out_norm={"offset": 0, "eps": 1e-5},
            dt_min=Hole(lambda fields: fields.number("time_step_min")),
            chunk=size("chunk_size"),
        ),
        "mamba": None,
    },
    only={"hidden_mamba_act": None, "use_long_context": False},
    beyond=("num_hidden_layers",),  # the class counts its list of layers
    irrelevant=("use_mem_eff_path", "use_conv_bias", "kv_channels", "num_query_groups", "hybrid_layer_ids"),
    names={
        **_in_both({**mamba2_names("mamba"), "mamba2.norm": "input_layernorm"}),
        **_shared(
            "shared_transformer",
            {
                **fused("feed_forward.gate_up_proj", (("mlp.gate", 1), ("mlp.up", 1))),
                "mlp.down": "feed_forward.down_proj",
            },
        ),
        **in_layers(
            _adapters,
            {
                **{
                    f"attn.{key}_adapter.{side}": f"self_attn.linear_{key}_adapter_list.{{use}}.{number}"
                    for key in ("q", "k", "v")
                    for number, side in enumerate(("left", "right"))
                },
                "mlp.adapter.left": "feed_forward.gate_up_proj_adapter_list.{use}.0",
                **fused(
                    "feed_forward.gate_up_proj_adapter_list.{use}.1", (("mlp.adapter.gate", 1), ("mlp.adapter.up", 1))
                ),
            },
        ),
    },
)

READERS: dict[str, Reader] = {"zamba": ZAMBA, "zamba2": ZAMBA2}
