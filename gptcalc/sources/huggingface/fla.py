"""Linear attention as the flash-linear-attention library has it: delta nets, gated or not, gated linear
attention, HGRN and HGRN2, gated slot attention.

The facts are those of the library's own classes (fla-core 0.6); transformers has none of these types.
"""

from __future__ import annotations

from typing import Any

from msgspec.structs import replace

from gptcalc.errors import InputError
from gptcalc.sources.huggingface.fields import Fields
from gptcalc.sources.huggingface.llama import LLAMA, PREFIX
from gptcalc.sources.huggingface.mamba import PLAIN, biases, expanded, low_rank, mamba_names
from gptcalc.sources.huggingface.pattern import enumerated, expression, stack
from gptcalc.sources.huggingface.reader import (
    SEARCHED,
    Hole,
    Reader,
    fill,
    number,
    optional,
    rmsnorm,
    sites,
    size,
    when,
)
from gptcalc.sources.huggingface.tensors import Names, bare, in_layers


def head_width(factor: str) -> Hole:
    """A head's share of a width that is a multiple of the model's."""

    def read(fields: Fields) -> int:
        heads = fields.needed("num_heads")
        width = int(fields.needed("hidden_size") * (fields.number(factor) or 1))
        if width % heads:
            raise InputError(f"{fields.within}{factor}: {width} channels are no multiple of {heads} heads")
        return width // heads

    return Hole(read)


def value_width(fields: Fields) -> int:
    """Of a gated delta net: a multiple of a key's."""
    width = fields.needed("head_dim") * (fields.number("expand_v") or 1)
    if width != int(width):
        raise InputError(f"{fields.within}expand_v: a head of {width} channels is none")
    return int(width)


def inner(fields: Fields) -> int:
    """The MLP's width; where it isn't said, 2/3 of a multiple of the model's, rounded up to 256."""
    given = fields.size("intermediate_size")
    width = int(fields.needed("hidden_size") * (fields.number("hidden_ratio") or 4) * 2 / 3)
    return given or -(-width // 256) * 256


#: of norms that are one kernel with the projection behind them, whatever the config says
FUSED_EPS = 1e-5
#: of softmax attention, where a config says none
ROPE_THETA = 10000.0
OUT_NORM: dict[str, Any] = {"over": "head", "eps": number("norm_eps")}
KERNEL = when("use_short_conv", size("conv_size"))


def own_kernels(fields: Fields) -> int | None:
    """Older classes could have one convolution for queries, keys and values; which says nothing where there is none."""
    shared, convolved = fields.get("share_conv_kernel"), fields.flag("use_short_conv")
    if convolved and shared:
        raise fields.unsupported("share_conv_kernel", "one convolution for all is not understood")
    return fields.needed("conv_size") if convolved else None


DEFAULTS: dict[str, Any] = {
    "hidden_size": 2048, "num_hidden_layers": 24, "vocab_size": 32000, "max_position_embeddings": 2048,
    "hidden_ratio": 4, "hidden_act": "swish", "norm_eps": 1e-6, "tie_word_embeddings": False, "expand_v": 1,
    "use_short_conv": True, "conv_size": 4,
}  # fmt: skip

_names: Names = {
    "linear.norm": "attn_norm",
    **{f"linear.{key}": f"attn.{key}_proj" for key in ("q", "k", "v")},
    **{f"linear.{key}_conv": f"attn.{key}_conv1d" for key in ("q", "k", "v")},
    "linear.beta": "attn.b_proj",
    "linear.decay": "attn.a_proj",
    "linear.A_log": bare("attn.A_log"),
    "linear.dt_bias": bare("attn.dt_bias"),
    "linear.gate": "attn.g_proj",
    "linear.out_norm": "attn.o_norm",
    "linear.out": "attn.o_proj",
    "mlp.norm": "mlp_norm",
}


def fla(linear: dict[str, Any], defaults: dict[str, Any], only: dict[str, Any], names: Names) -> Reader:
    """A stack of one kind of linear attention."""
    return hybrid(
        "linear",
        {
            "d_ff": Hole(inner),
            "norm": rmsnorm("norm_eps"),
            "linear": {"n_heads": size("num_heads"), "kernel": KERNEL, "out_norm": OUT_NORM, **linear},
        },
        {**DEFAULTS, **defaults},
        {"hidden_act": "swish", **only},
        {**_names, **names},
    )


#: fields of kernels, not of the architecture
KERNELS = (
    "attn_mode", "fuse_norm", "fuse_swiglu", "fuse_cross_entropy", "fuse_linear_cross_entropy", "use_l2warp",
    "residual_in_fp32", "rescale_prenorm_residual", "time_step_scale", "time_step_init_scheme",
)  # fmt: skip


def hybrid(
    mixer: str,
    document: dict[str, Any],
    defaults: dict[str, Any],
    only: dict[str, Any],
    names: Names,
    attention: str = "attn",
    feed_forward: str = "mlp",
) -> Reader:
    """A stack of one kind of mixer, and of softmax attention in the layers that `attn` numbers.

    attention: the module of both mixers.
    """
    theirs = {f"attn.{key}": f"{attention}.{key}_proj" for key in ("q", "k", "v")}
    reader = LLAMA.but(
        document={
            **PLAIN,
            "c": size("max_position_embeddings"),
            "layers": stack(enumerated("attn.layers", "attn", mixer, mixer), feed_forward),
            "attn": {
                "n_heads": size("attn.num_heads"),
                "n_kv_heads": optional("attn.num_kv_heads"),
                "d_head": Hole(attention_width),
                "window": optional("attn.window_size"),
                "position": "rope",
                "rope": {"theta": number("attn.rope_theta")},
                "bias": sites(qkv="attn.qkv_bias"),
            },
            **document,
            SEARCHED: Hole(lambda fields: further(fields, mixer, feed_forward)),
        },
        defaults={"attn.rope_theta": ROPE_THETA, "attn.qkv_bias": False, **defaults},
        only=only,
        irrelevant=KERNELS,
        names={
            "embedding.token": "model.embeddings",
            **in_layers(PREFIX, {"attn.norm": "attn_norm", **theirs, "attn.out": f"{attention}.o_proj", **names}),
        },
    )
    return replace(reader, nested=("attn",), several=("attn",))


def attention_width(fields: Fields, at: str = "attn") -> int:
    """A head's equal share of the model's width."""
    d, heads = fields.needed("hidden_size"), fields.needed(f"{at}.num_heads")
    if d % heads:
        raise InputError(f"{fields.within}{at}.num_heads: {d} channels are no multiple of {heads} heads")
    return d // heads


def further(fields: Fields, mixer: str, feed_forward: str) -> dict[str, Any]:
    """Sections of attention of further kinds, where `attn` is a list, and which layers have which."""
    n = 1
    while any(name.startswith(f"attn.{n}.") for name in fields.values):
        n += 1
    if n == 1:
        return {}
    depth = fields.needed("num_hidden_layers")
    units = [mixer] * depth
    sections: dict[str, Any] = {"attn": {"position": "rope"}}
    for k in range(n):
        at, name = (f"attn.{k}" if k else "attn"), f"attn{k}"
        for layer in fields.items(f"{at}.layers") or ():
            if type(layer) is not int or not 0 <= layer < depth or units[layer] != mixer:
                fields.wrong((f"{at}.layers",), "numbers of layers, each once in all", fields.get(f"{at}.layers"))
            units[layer] = name
        sections[name] = {
            "like": "attn",
            "n_heads": fields.needed(f"{at}.num_heads"),
            "n_kv_heads": fields.size(f"{at}.num_kv_heads") or fields.needed(f"{at}.num_heads"),
            "d_head": attention_width(fields, at),
            **({"window": window} if (window := fields.size(f"{at}.window_size")) else {}),
            "rope": {"theta": fields.number(f"{at}.rope_theta") or ROPE_THETA},
            "bias": "qkv" if fields.flag(f"{at}.qkv_bias") else "none",
        }
    blocks = [f"{unit}+{feed_forward}" for unit in units]
    return {"layers": expression(blocks), **sections}


DELTA_NET = fla(
    {
        "d_k": head_width("expand_k"),
        "d_v": head_width("expand_v"),
        "delta": True,
        "gate": when("use_gate", "silu"),
    },
    {"num_heads": 16, "expand_k": 1, "use_gate": False},
    {"qk_norm": "l2", "qk_activation": "silu", "use_beta": True, "use_output_norm": True, "allow_neg_eigval": False},
    {},
)

GATED_DELTA_NET = fla(
    {
        "n_heads": Hole(lambda fields: fields.size("num_v_heads") or fields.needed("num_heads")),
        "n_k_heads": size("num_heads"),
        "d_k": size("head_dim"),
        "d_v": Hole(value_width),
        "delta": True,
        "beta_scale": when("allow_neg_eigval", 2.0),
        "decay": "head",
        "gate": when("use_gate", "silu"),
    },
    {
        "num_heads": 6,
        "head_dim": 256,
        "num_hidden_layers": 21,
        "expand_v": 2,
        "use_gate": True,
        "allow_neg_eigval": False,
    },
    {},
    {},
)

GATED_LINEAR = fla(
    {
        "d_k": head_width("expand_k"),
        "d_v": head_width("expand_v"),
        "qk_norm": "none",
        "activation": when("use_short_conv", "silu", "none"),
        "decay": {"over": "channel", "form": "sigmoid", "rank": 16, "divisor": 16},
        "gate": when("use_output_gate", "silu"),
    },
    {"num_heads": 4, "expand_k": 0.5, "use_short_conv": False, "use_output_gate": True},
    {
        "feature_map": None,
        "num_kv_heads": None,
        "clamp_min": None,
        "elementwise_affine": True,
        "use_gk": True,
        "use_gv": False,
    },
    {
        "linear.decay_a": "attn.gk_proj.0",
        "linear.decay_b": "attn.gk_proj.1",
        "linear.dt_bias": bare("attn.gk_proj.1.bias"),
        "linear.out_norm": ("attn.g_norm_swish_gate", "attn.g_norm"),
    },
)


def heads_of_ratio(fields: Fields) -> int:
    """As many as have expand_ratio channels each, or a number."""
    d, ratio = fields.needed("hidden_size"), fields.size("expand_ratio")
    given = fields.size("num_heads")
    heads = given if ratio is None else d // ratio
    if not heads or d % heads:
        name = "num_heads" if ratio is None else "expand_ratio"
        raise InputError(f"{fields.within}{name}: {d} channels are no multiple of {heads} heads")
    return heads


def ratio(fields: Fields) -> int:
    """Channels of a head's queries and of its decay, which bounds have as many of as the model."""
    given = fields.size("expand_ratio") or fields.needed("hidden_size") // heads_of_ratio(fields)
    if fields.flag("use_lower_bound") and given * heads_of_ratio(fields) != fields.needed("hidden_size"):
        raise InputError(f"{fields.within}expand_ratio: with use_lower_bound decays have as many channels as the model")
    return given


def hgrn_names(mixer: str) -> Names:
    """What both of HGRN's layers call values, decays and the norm of what is read."""
    return {
        f"{mixer}.v": "attn.i_proj",
        f"{mixer}.v_conv": "attn.i_conv1d",
        f"{mixer}.decay": "attn.f_proj",
        f"{mixer}.decay_conv": "attn.f_conv1d",
        f"{mixer}.out_norm": "attn.g_norm",
    }


BOUNDS: Names = {"decay.bounds": bare("model.lower_bounds")}

HGRN2 = fla(
    {
        "n_heads": Hole(heads_of_ratio),
        "d_k": Hole(ratio),
        "d_v": Hole(lambda fields: fields.needed("hidden_size") // heads_of_ratio(fields)),
        "qk_norm": "none",
        "activation": "queries",
        "k_from_decay": True,
        "decay": {
            "over": "channel",
            "form": "sigmoid",
            "divisor": 1.0,
            "bias": False,
            "bounds": when("use_lower_bound", True),
        },
        "out_norm": {"over": "full", "eps": FUSED_EPS},
    },
    {"expand_ratio": 128, "use_short_conv": False, "use_lower_bound": True},
    {"elementwise_affine": True, "attnres_block_size": None},
    hgrn_names("linear"),
).but(names=BOUNDS)


def spelled(factor: str) -> Hole:
    """A head's share of a width whose factor GSA's class misspells as an argument, and writes right."""

    def read(fields: Fields) -> int:
        misspelled = factor.replace("expand", "exapnd")
        fields.number(misspelled)  # a config may have both: what is spelled right is written last
        return int(head_width(factor if fields.present(factor) else misspelled).read(fields))

    return Hole(read)


def slots(fields: Fields) -> int:
    """As many as are said; where null is, as a head of keys has channels."""
    return fields.size("num_slots") or int(spelled("expand_k").read(fields))


GATED_SLOTS = hybrid(
    "slots",
    {
        "d_ff": Hole(inner),
        "norm": rmsnorm("norm_eps"),
        "slots": {
            "n_heads": size("num_heads"),
            "n_kv_heads": optional("num_kv_heads"),
            "d_k": spelled("expand_k"),
            "d_v": head_width("expand_v"),
            "n_slots": Hole(slots),
            "divisor": number("gate_logit_normalizer"),
            "kernel": Hole(own_kernels),
            "out_norm": {"eps": FUSED_EPS, "weight": when("elementwise_affine", None, False)},
        },
    },
    {
        **DEFAULTS,
        "num_heads": 4,
        "num_slots": 64,
        "gate_logit_normalizer": 8,
        "use_short_conv": False,
        "elementwise_affine": True,
    },
    {
        "hidden_act": "swish",
        "feature_map": "swish",
        "expand_v": 1,  # the norm of what heads read has the model's width
        "exapnd_v": 1,
        "attnres_block_size": None,
    },
    {
        **{name.replace("linear.", "slots."): tensor for name, tensor in _names.items()},
        "slots.decay": "attn.f_proj",
        "slots.out_norm": "attn.g_norm",
    },
).but(irrelevant=(*KERNELS, "use_norm", "use_output_gate", "clamp_min", "clamp_max"))  # which its layer never reads


def rnn_width(fields: Fields) -> int:
    """A multiple of the model's; bounds have as many channels as the model."""
    d, factor = fields.needed("hidden_size"), fields.number("expand_ratio") or 1
    if fields.flag("use_lower_bound") and factor != 1:
        raise InputError(f"{fields.within}expand_ratio: with use_lower_bound decays have as many channels as the model")
    return int(d * factor)


HGRN = hybrid(
    "hgru",
    {
        "d_ff": Hole(inner),
        "norm": rmsnorm("norm_eps"),
        "hgru": {
            "d_rnn": Hole(rnn_width),
            "kernel": KERNEL,
            "bounds": when("use_lower_bound", True),
            "out_norm": {"eps": number("norm_eps")},
        },
    },
    {**DEFAULTS, "expand_ratio": 1, "use_short_conv": False, "use_lower_bound": True},
    {"hidden_act": "swish", "elementwise_affine": True, "attnres_block_size": None},
    {
        **{name.replace("linear.", "hgru."): tensor for name, tensor in _names.items()},
        **hgrn_names("hgru"),
    },
).but(names=BOUNDS)


def in_layers_of_attention(fields: Fields) -> str:
    """The layers with attention, which a config must number: the class has some where it doesn't."""
    if not fields.present("attn.layers"):
        raise fields.missing("attn.layers")
    return str(fill(stack(enumerated("attn.layers", "attn", "mamba", "mamba"), "mlp"), fields))


SAMBA = hybrid(
    "mamba",
    {
        "layers": Hole(in_layers_of_attention),
        "d_ff": Hole(inner),
        "norm": rmsnorm("norm_eps"),
        "mamba": {
            "d_inner": expanded("expand"),
            "d_state": size("state_size"),
            "dt_rank": low_rank("time_step_rank"),
            "kernel": size("conv_kernel"),
            "bias": biases("use_conv_bias", "use_bias", "use_bias"),
        },
    },
    {
        "hidden_size": 2304, "state_size": 16, "num_hidden_layers": 18, "norm_eps": 1e-5, "expand": 2,
        "conv_kernel": 4, "use_bias": False, "use_conv_bias": True, "hidden_act": "swish", "hidden_ratio": 4,
        "time_step_rank": "auto", "max_position_embeddings": 2048, "vocab_size": 32000, "tie_word_embeddings": False,
    },
    {"hidden_act": "swish", "attnres_block_size": None},
    {
        "attn.norm": "mixer_norm",
        "mamba.norm": "mixer_norm",
        **mamba_names("mixer"),
        "mlp.norm": "mlp_norm",
    },
    "mixer",
)  # fmt: skip

READERS: dict[str, Reader] = {
    "delta_net": DELTA_NET,
    "gated_deltanet": GATED_DELTA_NET,
    "gla": GATED_LINEAR,
    "gsa": GATED_SLOTS,
    "hgrn": HGRN,
    "hgrn2": HGRN2,
    "samba": SAMBA,
}
