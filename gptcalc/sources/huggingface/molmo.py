"""Molmo: Qwen or OLMo 2 around images; further rows of the embedding mark them, which no logits are made for."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from gptcalc.errors import InputError
from gptcalc.sources.huggingface.fields import Fields, shown
from gptcalc.sources.huggingface.llama import LLAMA, NAMES, PREFIX
from gptcalc.sources.huggingface.pattern import FULL, stack
from gptcalc.sources.huggingface.qwen import half_width
from gptcalc.sources.huggingface.reader import Hole, Reader, choice, flag, rmsnorm, when
from gptcalc.sources.huggingface.rope import parameters, rope
from gptcalc.sources.huggingface.tensors import QKV, UP_GATE, Entry, Held, Names, bare, fused, in_layers


def rows(fields: Fields) -> int:
    """Of the embedding: the vocabulary's, and those that only mark images."""
    return fields.needed("vocab_size") + (fields.size("additional_vocab_size", least=0) or 0)


def own_rows(fields: Fields) -> int | None:
    """Of the output, where they are fewer."""
    return fields.needed("vocab_size") if fields.size("additional_vocab_size", least=0) else None


def untied(fields: Fields) -> bool:
    """The class has no tie: its output never was the embedding's table."""
    if fields.flag("tie_word_embeddings"):
        fields.notes.append(f"{fields.within}tie_word_embeddings is not heeded: the class has two tables")
    return False


def scaled(fields: Fields, n: int) -> Sequence[str]:
    """Layers whose rotation is scaled, all of them unless they are listed; the others' turns as trained."""
    listed = fields.items("rope_scaling_layers")
    if listed is None:
        return ["attn"] * n
    if any(isinstance(i, bool) or not isinstance(i, int) for i in listed):
        raise InputError(f"{fields.within}rope_scaling_layers: expected numbers of layers, found {shown(listed)}")
    return ["attn" if i in listed else "unscaled" for i in range(n)]


def theta(fields: Fields) -> Any:
    """The base, which layers without a scaling share with the others."""
    return (parameters(fields, FULL) or {}).get("rope_theta")


def either(*entries: Entry) -> Entry:
    """Places of which a checkpoint has one."""
    return tuple(place for entry in entries for place in ([entry] if isinstance(entry, (str, Held)) else entry))


_own: Names = {
    **NAMES,
    **in_layers(PREFIX, {"attn.post_norm": "input_layernorm", "mlp.post_norm": "post_attention_layernorm"}),
}
#: as checkpoints have them, of which the class makes its own; the embedding's rows lie in two tables there
_stored: Names = {
    **in_layers(
        "model.transformer.blocks.{l}.",
        {
            **dict.fromkeys(("attn.norm", "attn.post_norm"), "attn_norm"),
            **fused("self_attn.att_proj", QKV),
            "attn.out": "self_attn.attn_out",
            "attn.q_norm": "self_attn.q_norm",
            "attn.k_norm": "self_attn.k_norm",
            **dict.fromkeys(("mlp.norm", "mlp.post_norm"), "ff_norm"),
            **fused("mlp.ff_proj", UP_GATE),
            "mlp.down": "mlp.ff_out",
        },
    ),
    "final_norm": "model.transformer.ln_f",
}

MOLMO2 = LLAMA.but(
    document={
        "v": Hole(rows),
        "tying": Hole(untied),
        "head": {"rows": Hole(own_rows)},
        "layers": stack(scaled, "mlp"),
        "norm_at": when("norm_after", "output"),
        "bias": when("attention_bias", "qkv"),
        "attn": {"qk_norm": choice("qk_norm_type", qwen3="head", olmo="full")},
        "unscaled": {"like": "attn", "rope": rope(Hole(theta), scaled=False)},
    },
    names={key: either(own, _stored[key]) if key in _stored else own for key, own in _own.items()},
)

#: rows that mark images, which its config doesn't say (MolmoConfig.additional_vocab_size of its own code)
MARKS = 128
_TABLES = "model.transformer.wte"


def own_table(fields: Fields) -> int:
    """Rows that have logits: of the table, which may be padded."""
    return fields.size("embedding_size") or fields.needed("vocab_size")


def all_rows(fields: Fields) -> int:
    return own_table(fields) + MARKS


#: the vendor's own code (modeling_molmo.py), around OpenAI's vision transformer
MOLMO = MOLMO2.but(
    document={
        "v": Hole(all_rows),
        "head": {"rows": Hole(own_table)},
        "d_ff": Hole(half_width),
        "layers": "n*attn+mlp",
        "tying": flag("weight_tying"),
        "norm": rmsnorm("layer_norm_eps"),
        "mlp": "swiglu",
        "bias": when("qkv_bias", "qkv"),
        "attn": {"qk_norm": when("attention_layer_norm", "full")},
        "unscaled": None,
        "rope": rope(),
    },
    names={
        "embedding.token": bare(f"{_TABLES}.embedding", behind=(f"{_TABLES}.new_embedding",), last=MARKS),
        **in_layers(
            "model.transformer.blocks.{l}.",
            {
                **dict.fromkeys(("attn.norm", "attn.post_norm"), "attn_norm"),
                **fused("att_proj", QKV),
                "attn.out": "attn_out",
                "attn.q_norm": "q_norm",
                "attn.k_norm": "k_norm",
                **dict.fromkeys(("mlp.norm", "mlp.post_norm"), "ff_norm"),
                **fused("ff_proj", UP_GATE),
                "mlp.down": "ff_out",
            },
        ),
        "final_norm": "model.transformer.ln_f",
        "head": "model.transformer.ff_out",
    },
    defaults={
        "qkv_bias": False,
        "weight_tying": False,
        "attention_layer_norm": False,
        "norm_after": False,
        "layer_norm_eps": 1e-5,
        "rope_theta": 10000.0,
    },
    only={"clip_qkv": None, "layer_norm_type": "rms"},
    irrelevant=("tie_word_embeddings", "use_position_ids", "vocab_size"),
)

READERS: dict[str, Reader] = {"molmo": MOLMO, "molmo2_text": MOLMO2}
