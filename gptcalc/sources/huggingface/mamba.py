"""Mamba and Mamba-2 alone, and the fragments that readers of hybrids share."""

from __future__ import annotations

import math
from typing import Any

from gptcalc.errors import InputError
from gptcalc.sources.huggingface.fields import Fields, shown
from gptcalc.sources.huggingface.llama import LLAMA
from gptcalc.sources.huggingface.reader import Hole, Reader, flag, number, optional, rmsnorm, size
from gptcalc.sources.huggingface.tensors import Names, Parts, bare, fused, in_layers

ASSUMED_LENGTH = 2048


def length(fields: Fields) -> int:
    """Models without positions may say no length; what depends on one is then answered for an assumed length."""
    given = fields.size("max_position_embeddings", "model_max_length", "max_seq_len")
    if given is None:
        fields.notes.append(
            f"{fields.within}no context length is given; {ASSUMED_LENGTH} is assumed, set c for another"
        )
    return given or ASSUMED_LENGTH


def share(n_heads: str, inner: Hole, *names: str, filling: bool = False) -> Hole:
    """A head's width: an equal share of the inner width, whether it is given or not."""

    def read(fields: Fields) -> int:
        whole, given = int(inner.read(fields)), fields.get(*names)
        heads = int(filled(n_heads, inner, *names).read(fields)) if filling else fields.needed(n_heads)
        width = whole // heads if given in (None, "auto") else fields.needed(*names)
        if width * heads != whole:
            raise InputError(f"{fields.within}{n_heads}: {heads} heads of {width} channels are not the {whole} inside")
        return width

    return Hole(read)


def filled(n_heads: str, inner: Hole, d_head: str) -> Hole:
    """Heads, where their number isn't given as many as fill the inner width: what a class assumes fits its own default
    width alone, and flash-linear-attention's always computes them."""

    def read(fields: Fields) -> int:
        given = fields.present(n_heads)
        return fields.needed(n_heads) if given else int(inner.read(fields)) // fields.needed(d_head)

    return Hole(read)


def expanded(by: str) -> Hole:
    """The inner width: so many times the model's."""
    return Hole(lambda fields: int((fields.number(by) or 2) * fields.needed("hidden_size")))


def convolved(taps: Hole, named: str = "hidden_act") -> Hole:
    """Tokens that a convolution sees, of which the class takes the activation that a field of the config names."""

    def read(fields: Fields) -> int:
        word = fields.word(named)
        if word not in (None, "silu", "swish"):
            raise fields.unsupported(named, f"Mamba with the activation {shown(word)} is not understood")
        return int(taps.read(fields))

    return Hole(read)


def mamba2(inner: Hole, **more: Any) -> dict[str, Any]:
    """A Mamba-2 sublayer in the words of Bamba's config."""
    return {
        "n_heads": size("mamba_n_heads"),
        "d_head": share("mamba_n_heads", inner, "mamba_d_head"),
        "d_state": size("mamba_d_state"),
        "kernel": convolved(size("mamba_d_conv")),
        "n_groups": size("mamba_n_groups"),
        "bias": biases("mamba_conv_bias", "mamba_proj_bias", "mamba_proj_bias"),
        "out_norm": {"offset": 0},
        "chunk": size("mamba_chunk_size"),
        **more,
    }


def biases(conv: str | tuple[str, ...] | bool, into: str, out: str) -> Hole:
    """Which sites have a bias: a flag of the config for each, or several names of one."""

    def read(fields: Fields) -> list[str]:
        given = (("in", (into,)), ("conv", (conv,) if isinstance(conv, str) else conv), ("out", (out,)))
        return [site for site, name in given if (name if isinstance(name, bool) else fields.flag(*name))]

    return Hole(read)


_parts: Parts = (
    ("mamba2.z", "d_inner"),
    ("mamba2.x", "d_inner"),
    ("mamba2.B", "d_shared"),
    ("mamba2.C", "d_shared"),
    ("mamba2.dt", "n_heads"),
)
_convolved: Parts = (("mamba2.x_conv", "d_inner"), ("mamba2.B_conv", "d_shared"), ("mamba2.C_conv", "d_shared"))


def mamba2_names(module: str) -> Names:
    return {
        **fused(f"{module}.in_proj", _parts),
        **fused(f"{module}.conv1d", _convolved),
        "mamba2.A_log": bare(f"{module}.A_log"),
        "mamba2.D": bare(f"{module}.D"),
        "mamba2.dt_bias": bare(f"{module}.dt_bias"),
        "mamba2.out_norm": f"{module}.norm",
        "mamba2.out": f"{module}.out_proj",
    }


#: words for the kinds of a layer
MAMBA_OR_ATTENTION = {"full_attention": "attn", "attention": "attn", "linear_attention": "mamba2", "mamba": "mamba2"}

#: the inner width in the words of Bamba's config
EXPANDED = expanded("mamba_expand")

#: what attention alone reads stands in its section, as a hybrid may have none
HEADS: dict[str, Any] = {
    "n_kv_heads": None,
    "d_head": None,
    "attn": {"n_kv_heads": optional("num_key_value_heads"), "d_head": optional("head_dim")},
}

FEED_FORWARD: Names = {
    "mlp.norm": "pre_ff_layernorm",
    "mlp.gate": "feed_forward.gate_proj",
    "mlp.up": "feed_forward.up_proj",
    "mlp.down": "feed_forward.down_proj",
}

# --- Mamba and Mamba-2 alone ------------------------------------------------------------------------------------------

_alone: Names = {
    "embedding.token": ("backbone.embeddings", "backbone.embedding"),
    "final_norm": "backbone.norm_f",
    "head": "lm_head",
}
_of_layers = "backbone.layers.{l}."
PLAIN: dict[str, Any] = {
    "n_heads": None, "n_kv_heads": None, "d_head": None, "d_ff": None, "rope": None, "bias": None, "mlp": None,
    "position": "none", "c": Hole(length), "norm": rmsnorm("layer_norm_epsilon"), "tying": flag("tie_word_embeddings"),
}  # fmt: skip


def low_rank(*names: str) -> Hole:
    """Δ's bottleneck: given, or a sixteenth of the width."""

    def read(fields: Fields) -> int:
        given = fields.get(*names)
        return math.ceil(fields.needed("hidden_size") / 16) if given in (None, "auto") else fields.needed(*names)

    return Hole(read)


def mamba_width(fields: Fields) -> int:
    return fields.size("intermediate_size", "d_inner") or int(
        (fields.number("expand") or 2) * fields.needed("hidden_size")
    )


_into_state: Parts = (("mamba.dt_a", "dt_rank"), ("mamba.B", "d_state"), ("mamba.C", "d_state"))


def mamba_names(module: str) -> Names:
    return {
        **fused(f"{module}.in_proj", (("mamba.x", 1), ("mamba.z", 1))),
        "mamba.inner_conv": f"{module}.conv1d",
        **fused(f"{module}.x_proj", _into_state),
        "mamba.dt_b": f"{module}.dt_proj",
        "mamba.A_log": bare(f"{module}.A_log"),
        "mamba.D": bare(f"{module}.D"),
        "mamba.out": f"{module}.out_proj",
    }


# transformers' cache keeps as many columns of a convolution as its kernel is wide, the token's own among them; of a
# kernel of 1 nothing has to be kept.
MAMBA = LLAMA.but(
    document={
        **PLAIN,
        "layers": "n*mamba",
        "mamba": {
            "d_inner": Hole(mamba_width),
            "d_state": size("state_size"),
            "dt_rank": low_rank("time_step_rank"),
            "kernel": size("conv_kernel"),
            "bias": biases("use_conv_bias", "use_bias", "use_bias"),
        },
    },
    only={"hidden_act": "silu"},
    irrelevant=(
        "time_step_scale", "time_step_init_scheme", "use_mambapy", "use_associative_scan", "expand",
        "fused_add_norm", "rms_norm", "d_model", "n_layer", "d_inner", "ssm_cfg", "pad_vocab_size_multiple",
    ),
    names={**_alone, **in_layers(_of_layers, {"mamba.norm": "norm", **mamba_names("mixer")})},
)  # fmt: skip

FALCON_MAMBA = MAMBA.but(
    document={
        "mamba": {**MAMBA.document["mamba"], "inner_norm": {"weight": False, "eps": number("mixer_rms_eps")}},
    },
    irrelevant=("use_falcon_mambapy",),
)


_width = expanded("expand")

MAMBA2 = LLAMA.but(
    document={
        **PLAIN,
        "layers": "n*mamba2",
        "mamba2": {
            "n_heads": filled("num_heads", _width, "head_dim"),
            "d_head": share("num_heads", _width, "head_dim", filling=True),
            "d_state": size("state_size"),
            "kernel": size("conv_kernel"),
            "n_groups": size("n_groups"),
            "bias": biases("use_conv_bias", "use_bias", "use_bias"),
            "out_norm": {},
            "chunk": size("chunk_size"),
        },
    },
    only={"hidden_act": "silu"},
    irrelevant=(
        "time_step_rank",
        "rms_norm",
        "norm_before_gate",
        "time_step_scale",
        "time_step_init_scheme",
    ),
    names={**_alone, **in_layers(_of_layers, {"mamba2.norm": "norm", **mamba2_names("mixer")})},
)

READERS: dict[str, Reader] = {"mamba": MAMBA, "falcon_mamba": FALCON_MAMBA, "mamba2": MAMBA2}
