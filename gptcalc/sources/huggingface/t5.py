"""T5: an encoder and a decoder with biases of distances in place of positions, scores without a scale. Its kin: T5 1.1,
FLAN, mT5, UMT5, ByT5; Switch, whose feed-forward layers are mixtures of experts in places."""

from __future__ import annotations

from typing import Any

from gptcalc.errors import InputError
from gptcalc.sources.huggingface.bart import FOUR_TABLES
from gptcalc.sources.huggingface.fields import Fields, shown
from gptcalc.sources.huggingface.heads import TANH, labels, scores
from gptcalc.sources.huggingface.pattern import MOST_LISTED, expression
from gptcalc.sources.huggingface.reader import FUNCTIONS, GATED, Hole, Reader, activation, rmsnorm, size, tied, when
from gptcalc.sources.huggingface.tensors import Entry, Held, Names, in_layers

#: T5 has no table of positions; its configs name the length that it was trained on
TRAINED = 512
GATED_ACT = "is_gated_act"


def feed_forward(fields: Fields) -> str:
    """`relu`, or `gated-gelu`, whose gelu is the one with a tanh. What the class makes of the word it writes, too,
    and that outweighs the word where a file has it."""
    word = fields.word("feed_forward_proj") or "relu"
    first, _, last = word.rpartition("-")
    name = fields.word("dense_act_fn") or ("gelu_new" if word == "gated-gelu" else last)
    gated = fields.flag(GATED_ACT) if GATED_ACT in fields.values else first == "gated"  # null is false to the class
    function = FUNCTIONS.get(name)
    if function is None or first not in ("", "gated") or (gated and function not in GATED):
        raise fields.unsupported("feed_forward_proj", f"activation {shown(word)} is not understood")
    return GATED[function] if gated else function


def early(fields: Fields) -> int:
    """num_layers as the class finds it before other names: where a config calls it num_hidden_layers, its default."""
    usual, needed = fields.defaults.get("num_layers"), fields.needed("num_layers")
    return needed if fields.values.get("num_layers") is not None or not isinstance(usual, int) else usual


def decoder_depth(fields: Fields) -> int:
    """The decoder's own, or as deep as num_layers says."""
    return fields.size("num_decoder_layers") or early(fields)


def scaled_if_tied(fields: Fields) -> float | None:
    """Logits are scaled by 1/√d where the table serves as output matrix; later files say so apart."""
    said = fields.get("scale_decoder_outputs")
    scaled = fields.get("tie_word_embeddings") is not False if said is None else fields.flag("scale_decoder_outputs")
    return float(fields.needed("d_model")) ** -0.5 if scaled else None


def _stack_names(side: str, feed_forward: int) -> Names:
    start = "" if side == "decoder" else "encoder."
    attention = {f"attn.{ours}": f"layer.0.SelfAttention.{ours[0]}" for ours in ("q", "k", "v", "out")}
    return {
        f"{start}{stem}": entry
        for stem, entry in in_layers(
            f"{side}.block.{{l}}.",
            {
                "attn.norm": "layer.0.layer_norm",
                **attention,
                "attn.relative.buckets": Held("layer.0.SelfAttention.relative_attention_bias.weight", weight=""),
                "cross.norm": "layer.1.layer_norm",
                **{f"cross.{ours}": f"layer.1.EncDecAttention.{ours[0]}" for ours in ("q", "k", "v", "out")},
                "mlp.norm": f"layer.{feed_forward}.layer_norm",
                "mlp.gate": f"layer.{feed_forward}.DenseReluDense.wi_0",
                "mlp.up": (f"layer.{feed_forward}.DenseReluDense.wi_1", f"layer.{feed_forward}.DenseReluDense.wi"),
                "mlp.down": f"layer.{feed_forward}.DenseReluDense.wo",
            },
        ).items()
    } | {
        f"{start}relative.buckets": Held(
            f"{side}.block.0.layer.0.SelfAttention.relative_attention_bias.weight", weight=""
        ),
        f"{start}final_norm": f"{side}.final_layer_norm",
    }


#: of T5's classes since version 5; not of Switch's
TIED_ANYWAY = "transformers 5 ties them all the same; counted are both, as published files have them"

#: the encoder without a decoder, as image models read their text
ALONE: dict[str, Any] = {
    "head": {"vocabulary": False},
    "tying": None,
    "logit_scale": None,
    "n_layers": size("num_layers", "num_hidden_layers"),
    "layers": "n*attn+mlp",
    "causal": False,
    "cross": None,
    "encoder": None,
}


def either_stack() -> Names:
    """The decoder's names, or the encoder's where that is all there is."""
    alone, whole = _stack_names("encoder", 1), _stack_names("decoder", 2)
    both = {stem: (entry, alone[f"encoder.{stem}"]) for stem, entry in whole.items() if f"encoder.{stem}" in alone}
    return {**whole, **{stem: flat(entries) for stem, entries in both.items()}}


def flat(entries: tuple[Entry, Entry]) -> Entry:
    """The places of two entries, those of the first in front."""
    return tuple(place for entry in entries for place in ((entry,) if isinstance(entry, (str, Held)) else entry))


T5 = Reader(
    document={
        "d": size("d_model", "hidden_size"),
        "v": size("vocab_size"),
        "c": size("n_positions"),
        "n_heads": size("num_heads", "num_attention_heads"),
        "n_layers": Hole(decoder_depth),
        "d_head": size("d_kv", "head_dim"),
        "d_ff": size("d_ff"),
        "tying": tied(TIED_ANYWAY),
        "position": "none",
        "norm": rmsnorm("layer_norm_epsilon"),
        "mlp": Hole(feed_forward),
        "logit_scale": Hole(scaled_if_tied),
        "layers": "n*attn+cross+mlp",
        "attn": {
            "scale": 1.0,
            "buckets": {
                "n": size("relative_attention_num_buckets"),
                "max_distance": size("relative_attention_max_distance"),
            },
        },
        "cross": {"scale": 1.0},
        "encoder": {"n_layers": size("num_layers", "num_hidden_layers")},
    },
    defaults={"n_positions": TRAINED, "tie_word_embeddings": True, "relative_attention_max_distance": 128},
    only={"is_encoder_decoder": True},
    irrelevant=frozenset({"dropout_rate", "scale_decoder_outputs", "output_past",
                          "decoder_start_token_id"}),
    classes={
        "": {},
        "ForConditionalGeneration": {},
        "WithLMHeadModel": {},
        "Model": {"head": {"vocabulary": False}, "tying": None, "logit_scale": None},
        "EncoderModel": ALONE,
        "ForSequenceClassification": scores("last", labels(), layer=TANH),
        "ForQuestionAnswering": scores("each", labels()),
        "ForTokenClassification": {**ALONE, **scores("each", labels())},
    },
    names={
        "pooler.dense": "classification_head.dense",
        "pooler.labels": ("classification_head.out_proj", "classifier", "qa_outputs"),
        "embedding.token": ("shared", "decoder.embed_tokens", "encoder.embed_tokens"),
        **_stack_names("encoder", 1),
        **either_stack(),
        "head": "lm_head",
    },
)  # fmt: skip

#: a table of its own for each layer
UMT5 = T5.but(
    document={
        "attn": {
            "scale": 1.0,
            "buckets": {
                "n": size("relative_attention_num_buckets"),
                "max_distance": size("relative_attention_max_distance"),
                "shared": False,
            },
        },
    },
)

MT5 = T5.but(document={"logit_scale": None})

# --- Switch -----------------------------------------------------------------------------------------------------------


def sparse(attention: str, *layers: str, experts: str, step_name: str) -> Hole:
    """The expression of layers of which the second of every so many has experts: a step that a config gives, which is
    what the class writes, outweighs the number of such layers."""

    def read(fields: Fields) -> str:
        n = decoder_depth(fields) if layers[0] == "num_decoder_layers" else fields.needed(*layers)
        if n > MOST_LISTED:
            raise InputError(f"{fields.within}{layers[0]} = {n}: layers of several kinds are read up to {MOST_LISTED}")
        n_sparse, given = fields.size(experts, least=0) or 0, fields.size(step_name, least=0)
        before = n if layers[0] == "num_decoder_layers" else early(fields)
        step = given if given is not None else before // n_sparse if n_sparse else before
        parts = ["moe" if step == 1 or (step > 0 and i % step == 1) else "mlp" for i in range(n)]
        return expression([f"{attention}+{part}" for part in parts])

    return Hole(read)


SWITCH = T5.but(
    classes={**(T5.classes or {}), "EncoderModel": {**ALONE, "layers": sparse(
        "attn", "num_layers", experts="num_sparse_encoder_layers", step_name="encoder_sparse_step")}},
    document={
        "tying": tied(FOUR_TABLES),
        "mlp": activation("dense_act_fn", gated=False),
        "logit_scale": when("tie_word_embeddings", Hole(lambda fields: float(fields.needed("d_model")) ** -0.5)),
        "layers": sparse("attn+cross", "num_decoder_layers", "num_layers", experts="num_sparse_decoder_layers",
                         step_name="decoder_sparse_step"),
        "moe": {
            "n_experts": size("num_experts"),
            "top_k": 1,
            "d_ff": size("d_ff"),
            "router": "softmax",
            "normalize": False,
            "bias": when("router_bias", ["router"], []),
        },
        "encoder": {
            "n_layers": size("num_layers", "num_hidden_layers"),
            "layers": sparse("attn", "num_layers", experts="num_sparse_encoder_layers",
                             step_name="encoder_sparse_step"),
        },
    },
    only={"feed_forward_proj": ("relu", "gated-gelu", "gelu")},
    irrelevant=("expert_capacity", "router_type", "add_router_probs",
                "router_ignore_padding_tokens", "is_gated_act", "feed_forward_proj"),
    names={
        f"{start}{stem}": entry
        for side, start, number in (("encoder", "encoder.", 1), ("decoder", "", 2))
        for stem, entry in in_layers(
            f"{side}.block.{{l}}.layer.{number}.",
            {
                "mlp.norm": "layer_norm",
                "mlp.up": "mlp.wi",
                "mlp.down": "mlp.wo",
                "moe.norm": "layer_norm",
                "moe.router": "mlp.router.classifier",
                "moe.up": "mlp.experts.expert_{e}.wi",
                "moe.down": "mlp.experts.expert_{e}.wo",
            },
        ).items()
    },
)  # fmt: skip

READERS: dict[str, Reader] = {
    "t5": T5,
    "mt5": MT5,
    "umt5": UMT5,
    "switch_transformers": SWITCH,
}
