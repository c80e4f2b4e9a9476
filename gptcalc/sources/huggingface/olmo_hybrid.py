"""OLMo Hybrid: gated delta nets normed in front, every fourth layer attention normed behind."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from gptcalc.sources.huggingface.fields import Fields
from gptcalc.sources.huggingface.llama import PREFIX
from gptcalc.sources.huggingface.olmo import OLMO2
from gptcalc.sources.huggingface.pattern import FULL, RECURRENT, each, every, listed, stack
from gptcalc.sources.huggingface.qwen_next import GATED_DELTA_NET, convolutions
from gptcalc.sources.huggingface.reader import Hole, Reader, when
from gptcalc.sources.huggingface.rope import rope
from gptcalc.sources.huggingface.tensors import bare, in_layers


def key_width(fields: Fields) -> int:
    """Where it isn't said, three quarters of a head's equal share."""
    given = fields.size("linear_key_head_dim")
    return given or int(0.75 * fields.needed("hidden_size") / key_heads(fields))


def key_heads(fields: Fields) -> int:
    return fields.size("linear_num_key_heads") or fields.needed("num_attention_heads")


def value_heads(fields: Fields) -> int:
    return fields.size("linear_num_value_heads") or fields.needed("num_attention_heads")


def fourth(unit: str, other: str) -> Callable[[Fields, int], Sequence[str]]:
    """Every fourth layer; the last one where there are fewer."""

    def read(fields: Fields, n: int) -> Sequence[str]:
        found = [*each(every(4, unit, other), fields, n)]
        return found if unit in found else [*found[:-1], unit]

    return read


def position(fields: Fields) -> str | None:
    """Nothing turns where the base is null: that of the rotary parameters, else the config's own."""
    said = (fields.mapping("rope_scaling") or fields.mapping("rope_parameters") or {}, fields.values)
    base = next((where["rope_theta"] for where in said if "rope_theta" in where), 0)
    return "none" if base is None else None


OLMO_HYBRID = OLMO2.but(
    document={
        "position": Hole(position),
        "rope": when(Hole(position), None, rope()),
        "layers": stack(
            listed("layer_types", {FULL: "attn", RECURRENT: "gdn"}, fourth("attn", "gdn")),
            listed("layer_types", {FULL: "mlp", RECURRENT: "pre"}, fourth("mlp", "pre")),
        ),
        "gdn": {
            **GATED_DELTA_NET,
            "norm_at": "pre",
            "n_heads": Hole(value_heads),
            "n_k_heads": Hole(key_heads),
            "d_k": Hole(key_width),
            "d_v": Hole(lambda fields: fields.size("linear_value_head_dim") or 2 * key_width(fields)),
            "beta_scale": when("linear_allow_neg_eigval", 2.0),
            "out_norm": {"over": "head", "eps": 1e-5},
        },
        "pre": {"like": "mlp", "norm_at": "pre"},
    },
    irrelevant=(
        "linear_a_log_min",
        "linear_a_log_max",
        "linear_dt_min",
        "linear_dt_max",
        "linear_dt_init_floor",
        "head_dim",
        "rope_theta",
    ),
    names=in_layers(
        PREFIX,
        {
            "attn.post_norm": ("post_attention_layernorm", "feedforward_layer_norm"),
            "linear.norm": ("attention_layer_norm", "input_layernorm"),
            "mlp.norm": ("feedforward_layer_norm", "post_attention_layernorm"),
            "linear.q": "linear_attn.q_proj",
            "linear.k": "linear_attn.k_proj",
            "linear.v": "linear_attn.v_proj",
            "linear.gate": "linear_attn.g_proj",
            "linear.beta": "linear_attn.b_proj",
            "linear.decay": "linear_attn.a_proj",
            "linear.A_log": bare("linear_attn.A_log"),
            "linear.dt_bias": bare("linear_attn.dt_bias"),
            "linear.out_norm": "linear_attn.o_norm",
            "linear.out": "linear_attn.o_proj",
            **convolutions("linear_attn"),
        },
    ),
)

READERS: dict[str, Reader] = {"olmo_hybrid": OLMO_HYBRID}
