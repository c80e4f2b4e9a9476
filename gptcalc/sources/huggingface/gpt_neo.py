"""EleutherAI: GPT-Neo, GPT-J (and CodeGen, which is laid out for four devices), GPT-NeoX, and GPT-NeoX-Japanese."""

from __future__ import annotations

from collections.abc import Sequence

from gptcalc.errors import InputError
from gptcalc.sources.huggingface.fields import Fields, shown
from gptcalc.sources.huggingface.gpt2 import GPT2
from gptcalc.sources.huggingface.heads import scores
from gptcalc.sources.huggingface.pattern import stack
from gptcalc.sources.huggingface.reader import Hole, Reader, activation, flag, layernorm, optional, sites, size, when
from gptcalc.sources.huggingface.rope import rope
from gptcalc.sources.huggingface.tensors import QKV, Held, Names, fused, in_layers


def neo_layers(fields: Fields, n: int) -> Sequence[str]:
    """[[["global", "local"], 12]]: patterns with how often each repeats."""
    name = {"global": "attn", "local": "local"}
    layers = fields.items("attention_layers") or []
    for item in fields.items("attention_types") or []:
        match item:
            case [list() as words, int() as times] if 0 <= times <= n and times * len(words) <= n:
                layers = layers if fields.present("attention_layers") else layers + words * times
            case _:
                raise InputError(f"{fields.within}attention_types: {shown(item)} is not a pattern of up to {n} layers")
    if len(layers) != n or not all(isinstance(word, str) and word in name for word in layers):
        raise InputError(
            f"{fields.within}attention_types: expected global or local for {n} layers, found {len(layers)}"
        )
    return [name[word] for word in layers]


GPT_NEO = GPT2.but(
    defaults={"attention_types": [[["global", "local"], 12]]},
    document={
        "d": size("hidden_size"),
        "c": size("max_position_embeddings"),
        "n_heads": size("num_heads", "num_attention_heads"),
        "n_layers": size("num_layers", "num_hidden_layers"),
        "d_ff": optional("intermediate_size"),
        "layers": stack(neo_layers, "mlp", n_layers="num_layers"),
        "bias": ["out", "mlp"],
        "attn": {"scale": 1.0},
        "local": {"like": "attn", "window": size("window_size")},
    },
    names=in_layers(
        "transformer.h.{l}.",
        {
            "attn.q": "attn.attention.q_proj",
            "attn.k": "attn.attention.k_proj",
            "attn.v": "attn.attention.v_proj",
            "attn.out": "attn.attention.out_proj",
            "mlp.up": "mlp.c_fc",
            "mlp.down": "mlp.c_proj",
        },
    ),
)

GPTJ = GPT2.but(
    document={
        "layers": "n*attn|mlp",
        "position": "rope",
        "rope": rope(fraction=None, channels="rotary_dim", pairing="adjacent"),
        "bias": ["mlp", "head"],
    },
    only={"rotary": True},
    names=in_layers(
        "transformer.h.{l}.",
        {
            "parallel.norm": "ln_1",
            "attn.q": "attn.q_proj",
            "attn.k": "attn.k_proj",
            "attn.v": "attn.v_proj",
            "attn.out": "attn.out_proj",
            "mlp.up": "mlp.fc_in",
            "mlp.down": "mlp.fc_out",
        },
    ),
)

CODEGEN = GPTJ.but(
    names=in_layers(
        "transformer.h.{l}.",
        fused("attn.qkv_proj", (QKV[0], QKV[2], QKV[1]), groups=4),  # laid out for four devices: query, value, key
    )
)

#: CodeGen under another name; its smaller files say how many bits a weight has
MOSS = CODEGEN.but(like="codegen")

_neox_block: Names = {
    "attn.norm": "input_layernorm",
    **fused("attention.query_key_value", QKV, groups="n_heads"),
    "attn.out": "attention.dense",
    "mlp.norm": "post_attention_layernorm",
    "mlp.up": "mlp.dense_h_to_4h",
    "mlp.down": "mlp.dense_4h_to_h",
}

FLAT = "partial_rotary_factor"


def share(fields: Fields) -> float | None:
    """The share of channels that turn. Outside rope_parameters the class takes it from rotary_pct alone."""
    given, other = fields.number("rotary_pct"), fields.number(FLAT)
    if other is not None and other != given:
        fields.notes.append(f"{fields.within}{FLAT} = {other} is ignored: the class reads rotary_pct, which is {given}")
    return given


GPT_NEOX = Reader(
    defaults={"rotary_pct": 0.25},
    document={
        "d": size("hidden_size"),
        "v": size("vocab_size"),
        "c": size("max_position_embeddings"),
        "n_heads": size("num_attention_heads"),
        "n_layers": size("num_hidden_layers"),
        "n_kv_heads": optional("num_key_value_heads"),
        "d_head": optional("head_dim"),
        "d_ff": size("intermediate_size"),
        "layers": when("use_parallel_residual", "n*attn|mlp", "n*attn+mlp"),
        "tying": flag("tie_word_embeddings"),
        "rope": rope("rotary_emb_base", fraction=Hole(share)),
        "norm": layernorm(),
        "parallel_norm": "separate",
        "mlp": activation("hidden_act", gated=False),
        "bias": sites(attn="attention_bias", mlp=True),
    },
    names={
        "embedding.token": "gpt_neox.embed_in",
        **in_layers("gpt_neox.layers.{l}.", _neox_block),
        "final_norm": "gpt_neox.final_layer_norm",
        "head": ("embed_out", "lm_head"),
    },
)

#: OpenAssistant's, whose files call head and model so
GPT_NEOX_REWARD = GPT_NEOX.but(
    like="gpt_neox",
    irrelevant=("pooling",),
    called=("GPTNeoXRewardModel",),
    classes={"RewardModel": scores("last", 1)},
    names={"pooler.labels": "out_proj"},
)


def last_apart(_: Fields, n: int) -> Sequence[str]:
    """The last layer has a bias more."""
    return ["attn"] * (n - 1) + ["last"]


NEOX_JAPANESE = GPT_NEOX.but(
    document={
        "n_kv_heads": None,
        "d_head": None,
        "d_ff": Hole(lambda f: int(f.needed("hidden_size") * (f.number("intermediate_multiple_size") or 0))),
        "layers": stack(last_apart, "mlp"),
        "bias": None,
        "parallel_norm": None,
        "last": {"like": "attn", "bias": ["out"]},
    },
    defaults={"rotary_pct": 1.0},
    names={
        "embedding.token": "gpt_neox_japanese.embed_in",
        **in_layers(
            "gpt_neox_japanese.layers.{l}.",
            {**_neox_block, "attn.out": Held("attention.dense", bias="_bias")},
        ),
        "final_norm": "gpt_neox_japanese.final_layer_norm",
    },
)

#: Llama's names around GPT-NeoX's
_plain: Names = {
    "embedding.token": "model.embed_tokens",
    **in_layers(
        "model.layers.{l}.",
        {
            "attn.norm": "input_layernorm",
            "parallel.norm": "input_layernorm",
            "attn.q": "self_attn.q_proj",
            "attn.k": "self_attn.k_proj",
            "attn.v": "self_attn.v_proj",
            "attn.out": "self_attn.dense",
            "attn.q_norm": "self_attn.q_layernorm",
            "attn.k_norm": "self_attn.k_layernorm",
            "mlp.norm": "post_attention_layernorm",
        },
    ),
    "final_norm": "model.final_layernorm",
    "head": "lm_head",
}

READERS: dict[str, Reader] = {
    "gpt_neo": GPT_NEO,
    "gptj": GPTJ,
    "codegen": CODEGEN,
    "gpt_neox": GPT_NEOX,
    "gpt_neox_reward_model": GPT_NEOX_REWARD,
    "moss": MOSS,
    "gpt_neox_japanese": NEOX_JAPANESE,
}
