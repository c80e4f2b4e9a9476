"""DeBERTa: positions apart from content, as vectors of distances."""

from __future__ import annotations

from typing import Any

from gptcalc.sources.huggingface.bert import BERT, MASKED, names
from gptcalc.sources.huggingface.fields import Fields, shown
from gptcalc.sources.huggingface.heads import encoders, function
from gptcalc.sources.huggingface.reader import Hole, Reader, choice, size, when
from gptcalc.sources.huggingface.tensors import QKV, Held, bare, fused, in_layers


def kinds(fields: Fields) -> set[str]:
    value = fields.get("pos_att_type") or []
    words = value.lower().split("|") if isinstance(value, str) else value
    found = {str(word).strip() for word in words}
    if not found <= {"c2p", "p2c"}:
        raise fields.unsupported("pos_att_type", f"{shown(value)} is not understood; known are c2p and p2c")
    return found


def read_kinds(fields: Fields) -> set[str]:
    """The same, which is nothing's where relative attention is off; where it is on and they are none, the class makes
    a table that nothing reads."""
    found = kinds(fields)
    if fields.flag("relative_attention") and not found:
        raise fields.unsupported("pos_att_type", "relative_attention without any makes a table that nothing reads")
    return found


def distances(fields: Fields) -> dict[str, Any] | None:
    """The vectors of distances; without logarithmic ones there are as many as positions, on both sides."""
    found = read_kinds(fields)
    own = not fields.flag("share_att_key")
    normed = [word.strip() for word in (fields.word("norm_rel_ebd") or "none").lower().split("|")]
    most, buckets = fields.number("max_relative_positions") or -1, fields.number("position_buckets") or -1
    if not fields.flag("relative_attention") or not found:
        return None
    longest = int(most) if most >= 1 else fields.needed("max_position_embeddings")
    return {
        "span": int(buckets) if buckets > 0 else longest,
        "max_distance": longest if buckets > 0 else None,
        "c2p": "c2p" in found,
        "p2c": "p2c" in found,
        "own": own,
        "norm": {"kind": "layernorm", "eps": fields.number("layer_norm_eps")} if "layer_norm" in normed else None,
    }


def layers(fields: Fields) -> str:
    """A convolution over the embedding joins the stream behind the first layer, where its kernel is given."""
    n, kernel = fields.needed("num_hidden_layers"), fields.size("conv_kernel_size", least=0)
    if not kernel:
        return "n*attn+mlp"
    return "attn+mlp+embconv" + (" n*attn+mlp" if n > 1 else "")


_pooler = {"function": function("pooler_hidden_act"), "norm": False}

DEBERTA = BERT.but(
    document={
        "position": when("position_biased_input", "learned", "none"),
        "embedding": {
            "width": Hole(lambda fields: fields.size("embedding_size")),
            "types": size("type_vocab_size", least=0),
            "norm": True,
            "projected": "sum",
        },
        "attn": {"disentangled": Hole(distances)},
        "layers": Hole(layers),
        "embconv": {
            "kernel": size("conv_kernel_size", least=0),
            "function": choice("conv_act", tanh="tanh", gelu="gelu", relu="relu"),
        },
        "causal": False,
    },
    defaults={"conv_act": "tanh"},
    only={"legacy": True, "conv_groups": (1,)},
    irrelevant=("pooler_dropout", "pooler_hidden_size", "pooler_hidden_act", "attention_head_size"),
    classes=encoders(None, MASKED, _pooler, _pooler),
    names={
        **names("deberta."),
        "embedding.projection": "deberta.embeddings.embed_proj",
        **in_layers(
            "deberta.encoder.layer.{l}.",
            {
                "attn.q": "attention.self.query_proj",
                "attn.k": "attention.self.key_proj",
                "attn.v": "attention.self.value_proj",
                "attn.position_k": "attention.self.pos_key_proj",
                "attn.position_q": "attention.self.pos_query_proj",
            },
        ),
        "embconv.conv": "deberta.encoder.conv.conv",
        "embconv.post_norm": "deberta.encoder.conv.LayerNorm",
        "relative.table": "deberta.encoder.rel_embeddings",
        "relative.norm": "deberta.encoder.LayerNorm",
        "pooler.dense": "pooler.dense",
    },
)


def first_distances(fields: Fields) -> dict[str, Any] | None:
    """Of the first version: matrices of its own for positions, and no logarithm."""
    found = read_kinds(fields)
    most = fields.number("max_relative_positions") or -1
    if not fields.flag("relative_attention") or not found:
        return None
    return {
        "span": int(most) if most >= 1 else fields.needed("max_position_embeddings"),
        "c2p": "c2p" in found,
        "p2c": "p2c" in found,
        "own": True,
        "own_key_bias": False,
    }


_joint = "deberta.encoder.layer.{l}.attention.self."

DEBERTA_1 = DEBERTA.but(
    document={
        "attn": {"bias": ["q", "v", "out"], "disentangled": Hole(first_distances)},
        "layers": None,
        "embconv": None,
    },
    only={"conv_groups": None, "talking_head": (False,), "legacy": True},
    names={
        **fused(_joint + "in_proj", QKV, groups="n_heads"),
        "attn.q": (Held(_joint + "in_proj", parts=QKV, groups="n_heads"), bare(_joint + "q")),
        "attn.v": (Held(_joint + "in_proj", parts=QKV, groups="n_heads"), bare(_joint + "v")),
        "attn.position_k": _joint + "pos_proj",
        "attn.position_q": _joint + "pos_q_proj",
    },
)

READERS: dict[str, Reader] = {"deberta": DEBERTA_1, "deberta-v2": DEBERTA}
