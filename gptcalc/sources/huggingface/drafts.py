"""Draft models, which read hidden states of the model that they guess for. Their configs name the class in
`architectures`; model_type says whose sizes and rotation they are spelled like.

The classes are those of SpecForge (specforge/modeling/draft), which serving engines load.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from gptcalc.errors import InputError
from gptcalc.sources.huggingface.fields import Fields
from gptcalc.sources.huggingface.llama import LAYER, LLAMA
from gptcalc.sources.huggingface.pattern import FULL, SLIDING, listed, stack
from gptcalc.sources.huggingface.reader import Hole, Reader, optional, sites, size
from gptcalc.sources.huggingface.tensors import Names, bare, in_layers

#: what all of them assume, and fields of their configs that none of them reads
_common: dict[str, Any] = {
    "defaults": {"hidden_act": "silu", "rms_norm_eps": 1e-6, "attention_bias": False, "tie_word_embeddings": False},
    "irrelevant": (
        "max_window_layers",
        "use_sliding_window",
        "target_model_type",
        "decoder_sparse_step",
        "modal_type",
        "num_anchors",
        "loss_decay_gamma",
        "attention_backend",
    ),
}

EAGLE3_LAYERS = 3


def three_layers(fields: Fields) -> int:
    """Low, middle and high: the class reads three of the target's layers, whichever they are."""
    chosen = fields.mapping("eagle_config") or {}
    listed = chosen.get("eagle_aux_hidden_state_layer_ids")
    if listed is not None and (not isinstance(listed, list) or len(listed) != EAGLE3_LAYERS):
        raise fields.unsupported("eagle_config.eagle_aux_hidden_state_layer_ids", "expected three layers")
    unknown = set(chosen) - {"eagle_aux_hidden_state_layer_ids", "use_aux_hidden_state"}
    if unknown or chosen.get("use_aux_hidden_state") is False:
        name = sorted(unknown)[0] if unknown else "use_aux_hidden_state"
        raise fields.unsupported(f"eagle_config.{name}", "hidden states of another form")
    return EAGLE3_LAYERS


def same_width(fields: Fields) -> bool:
    """A target's table serves where its rows are as wide as the draft; else the draft has one of its own."""
    return fields.size("target_hidden_size") in (None, fields.needed("hidden_size"))


def one_layer(fields: Fields) -> str:
    if fields.needed("num_hidden_layers") != 1:
        raise InputError(f"{fields.within}num_hidden_layers: the class has one layer")
    return "attn+mlp"


def rows_of_its_own(fields: Fields) -> int:
    """Words that a draft guesses among. Its output matrix is its own, whatever a config says of ties, where these are
    fewer than the table's: matrices of other sizes aren't one."""
    rows = fields.needed("draft_vocab_size")
    if fields.flag("tie_word_embeddings"):
        if rows == fields.needed("vocab_size"):
            raise fields.unsupported("tie_word_embeddings", "a draft's output that is its target's table")
        fields.notes.append("tie_word_embeddings is true: an output of fewer rows than the table isn't tied to it")
    return rows


def _either(first: str, second: str, entries: Names) -> dict[str, tuple[str, str]]:
    """Names of a layer's weights, whose layer is called one way or the other."""
    return {stem: (f"{first}{name}", f"{second}{name}") for stem, name in entries.items()}


_norms = {"attn.embedding_norm": "input_layernorm", "attn.norm": "hidden_norm"}

EAGLE3 = Reader(
    document={
        **LLAMA.document,
        "layers": Hole(one_layer),
        "tying": None,
        "bias": None,
        "attn": {"with_embedding": "apart"},
        "embedding": {"borrowed": Hole(same_width)},
        "head": {"rows": Hole(rows_of_its_own)},
        "target": {
            "layers": Hole(three_layers),
            "d": optional("target_hidden_size"),
            "norm": Hole(lambda fields: fields.flag("fc_norm")),
        },
    },
    names={
        "states.projection": "fc",
        "states.norm": "fc_norm.{e}",
        "target.embedding.token": ("embed_tokens", "model.embed_tokens"),
        **_either("midlayer.", "layers.{l}.", {**LAYER, **_norms}),
        "final_norm": "norm",
        "head": "lm_head",
    },
    defaults=_common["defaults"],
    only={"attention_bias": False, "mlp_bias": False, "norm_output": True},
    irrelevant=frozenset({*_common["irrelevant"], "sliding_window"}),
)


def read_layers(fields: Fields) -> int:
    """How many of the target's layers are read: those that are listed, or as many as the draft has."""
    listed = fields.items("dflash_config.target_layer_ids")
    fields.size("num_target_layers")
    n = fields.needed("num_hidden_layers") if listed is None else len(listed)
    if n < 1:
        raise InputError(f"{fields.within}dflash_config.target_layer_ids: no layer of the target is read")
    return n


def seeing_all(fields: Fields, n: int) -> Sequence[str]:
    """All layers see all tokens; how a window lies over a block that is drafted isn't said."""
    kinds = listed("layer_types", {FULL: "attn", SLIDING: SLIDING})(fields, n)
    if SLIDING in kinds:
        raise fields.unsupported("layer_types", f"{SLIDING} is not defined in a block that is drafted at once")
    return kinds


DFLASH = Reader(
    document={
        **LLAMA.document,
        "layers": stack(seeing_all, "mlp"),
        "d_head": size("head_dim"),
        "tying": None,
        "bias": sites(attn="attention_bias"),
        "causal": False,
        "attn": {"with_target": True, "qk_norm": "head"},
        "embedding": {"borrowed": True},
        "head": {"borrowed": True},
        "target": {"layers": Hole(read_layers), "out_norm": True, "block": size("block_size", least=2)},
    },
    names={
        "states.projection": "fc",
        "states.out_norm": "hidden_norm",
        "target.embedding.token": ("embed_tokens", "model.embed_tokens"),
        "target.head": "lm_head",
        **in_layers("layers.{l}.", LAYER),
        "final_norm": "norm",
    },
    defaults={**_common["defaults"], "head_dim": 128},
    only={"dflash_config.projector_type": "dflash", "target_hidden_size": None},
    irrelevant=frozenset(
        {
            *_common["irrelevant"],
            "sliding_window",
            "tie_word_embeddings",
            "dflash_config.mask_token_id",
            "dflash_config.pure_draft_prefix_len",
            "dflash_config.shift_label",
        }
    ),
    nested=("dflash_config",),
)


def markov(fields: Fields) -> dict[str, Any] | None:
    """A low-rank head of the token in front, without which no document says what a confidence is made of."""
    rank = fields.size("dflash_config.markov_rank", least=0)
    if not rank:
        raise fields.unsupported("dflash_config.markov_rank", "a draft of this class without a Markov head")
    alpha = fields.number("dflash_config.confidence_head_alpha") or 0.0
    fields.flag("dflash_config.enable_confidence_head")
    on = alpha > 0
    if fields.present("dflash_config.enable_confidence_head"):
        on = fields.flag("dflash_config.enable_confidence_head")
    both = fields.flag("dflash_config.confidence_head_with_markov")
    return {"rank": rank, "confidence": "none" if not on else "both" if both else "state"}


DSPARK = DFLASH.but(
    document={"head": {"borrowed": True, "markov": Hole(markov)}},
    only={
        "dflash_config.projector_type": "dspark",
        "dflash_config.attention_mode": ("gqa", "mha"),
        "dflash_config.markov_head_type": "vanilla",
    },
    names={
        "head.markov.table": ("markov_head.markov_w1", "logit_head.markov_head.markov_w1"),
        "head.markov.out": ("markov_head.markov_w2", "logit_head.markov_head.markov_w2"),
        "head.confidence": ("confidence_head.proj", "logit_head.confidence_head.proj"),
    },
)

DOMINO = DFLASH.but(
    document={
        "head": {
            "borrowed": True,
            "gru": {
                "d_state": size("dflash_config.gru_hidden_dim"),
                "d_hidden": size("dflash_config.emb_dim"),
                "first": size("dflash_config.pure_draft_prefix_len", least=0),
            },
        },
        "target": {
            **DFLASH.document["target"],
            "shifted": Hole(lambda fields: fields.flag("dflash_config.shift_label")),
        },
    },
    only={"dflash_config.projector_type": "domino"},
    defaults={"dflash_config.pure_draft_prefix_len": 0},
    irrelevant=("emb_dim",),
    names={
        "head.gru.input": bare("prefix_gru.weight_ih_l0"),
        "head.gru.state": bare("prefix_gru.weight_hh_l0"),
        "head.gru.hidden": "embed_proj.0",
        "head.gru.out": "embed_proj.2",
    },
)

# vLLM's and AngelSlim's names stand beside SpecForge's
READERS: dict[str, Reader] = {
    "DSparkDraftModel": DSPARK,
    "LlamaForCausalLMEagle3": EAGLE3,
    "Eagle3LlamaForCausalLM": EAGLE3,
    "DFlashDraftModel": DFLASH,
    "QwenDFlashDraftModel": DFLASH,
    "DominoDraftModel": DOMINO,
}
