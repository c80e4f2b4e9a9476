"""BART and what is spelled like it: mBART, PLBART, MVP, Pegasus, Blenderbot, Marian, M2M-100 (NLLB and its
mixtures of experts), Whisper."""

from __future__ import annotations

from typing import Any

from gptcalc.errors import InputError
from gptcalc.sources.huggingface.fields import Fields
from gptcalc.sources.huggingface.heads import TANH, labels, scores
from gptcalc.sources.huggingface.pattern import MOST_LISTED, expression
from gptcalc.sources.huggingface.reader import Hole, Reader, activation, choice, flag, size, tied, when
from gptcalc.sources.huggingface.tensors import Held, Names, in_layers

_layer: Names = {
    **{
        f"{ours}.{part}": f"{theirs}.{part}_proj"
        for ours, theirs in (("attn", "self_attn"), ("cross", "encoder_attn"))
        for part in ("q", "k", "v", "out")
    },
    **{
        f"{ours}.{norm}": f"{theirs}_layer_norm"
        for ours, theirs in (("attn", "self_attn"), ("cross", "encoder_attn"))
        for norm in ("norm", "post_norm")
    },
    "mlp.norm": "final_layer_norm",
    "mlp.post_norm": "final_layer_norm",
    "mlp.up": "fc1",
    "mlp.down": "fc2",
}


def _stack_names(side: str) -> Names:
    names = {
        **in_layers(f"model.{side}.layers.{{l}}.", _layer),
        "embedding.position": f"model.{side}.embed_positions",
        "embedding.norm": f"model.{side}.layernorm_embedding",
        "final_norm": f"model.{side}.layer_norm",
    }
    return names if side == "decoder" else {f"encoder.{stem}": entry for stem, entry in names.items()}


_scale = when("scale_embedding", "sqrt(d)")

#: as its classes are since version 5; those before had one table for both, and so have the files that they wrote
FOUR_TABLES = (
    "transformers 5 then makes tables for encoder and decoder apart, and one that nothing reads; counted is what "
    "published files have, one for both beside the output matrix"
)


def alone(length: str) -> dict[str, Any]:
    """The decoder, which attends to what another model's encoder gives, so many states by default."""
    return {"encoder": None, "encoded": {"d": size("d_model", "hidden_size"), "c": size(length)}, "head": None}


BART = Reader(
    document={
        "d": size("d_model", "hidden_size"),
        "v": size("vocab_size"),
        "c": size("max_position_embeddings"),
        "n_heads": size("decoder_attention_heads"),
        "n_layers": size("decoder_layers"),
        "d_ff": size("decoder_ffn_dim"),
        "tying": tied(FOUR_TABLES),
        "position": "learned",
        "norm": {"kind": "layernorm"},
        "norm_at": "post",
        "final_norm": False,
        "mlp": activation("activation_function", gated=False),
        "bias": "all",
        "embedding": {"scale": _scale, "offset": 2, "norm": True},
        "layers": "n*attn+cross+mlp",
        "head": {"fixed_bias": True},
        "encoder": {
            "n_heads": size("encoder_attention_heads"),
            "n_layers": size("encoder_layers"),
            "d_ff": size("encoder_ffn_dim"),
        },
    },
    only={"is_encoder_decoder": (True, False), "extra_pos_embeddings": (2,), "static_position_embeddings": False,
          "add_bias_logits": False},
    irrelevant=frozenset({"encoder_layerdrop", "decoder_layerdrop", "classif_dropout", "num_hidden_layers",
                          "num_attention_heads", "output_past", "force_bos_token_to_be_generated", "id2label",
                          "label2id", "max_source_positions", "max_target_positions", "gradient_checkpointing",
                          "save_step", "task_specific_params", "normalize_before", "normalize_embedding",
                          "add_final_layer_norm", "tokenizer_class", "extra_pos_embeddings"}),
    classes={
        "": {},
        "ForConditionalGeneration": {},
        "MTModel": {},
        "Model": {"head": {"vocabulary": False}, "tying": None},
        "ForSequenceClassification": scores("last", labels(), layer=TANH),
        "ForQuestionAnswering": scores("each", 2),
        "ForCausalLM": alone("max_position_embeddings"),
    },
    names={
        "pooler.dense": "classification_head.dense",
        "pooler.labels": ("classification_head.out_proj", "qa_outputs"),
        "embedding.token": ("model.shared", "model.decoder.embed_tokens", "model.encoder.embed_tokens"),
        **_stack_names("encoder"),
        **_stack_names("decoder"),
        "head": "lm_head",
        "head.fixed_bias": Held("final_logits_bias", weight=""),
    },
)  # fmt: skip

_PRE: dict[str, Any] = {"norm_at": "pre", "final_norm": True}

MBART = BART.but(document=_PRE)

#: without prompts in front of every layer's keys and values
MVP = BART.but(only={"use_prompt": False}, irrelevant=("prompt_length", "prompt_mid_dim", "forced_eos_token_id"))

BLENDERBOT = BART.but(document={**_PRE, "embedding": {"scale": _scale}})

#: the decoder norms its tokens in front of their positions, and so has no use for their scale
BLENDERBOT_SMALL = BART.but(
    document={
        "embedding": {"norm": True, "normed": "token"},
        "encoder": {**BART.document["encoder"], "embedding": {"scale": _scale, "norm": True}},
    },
)

#: positions are fixed sines, which checkpoints store as a table
PEGASUS = BART.but(document={**_PRE, "embedding": {"scale": _scale}})

MARIAN = PEGASUS.but(
    document={
        "norm_at": "post",
        "final_norm": False,
        "position": "sinusoidal",
        "embedding": {"scale": _scale, "sinusoids": "halves"},
        "v": Hole(lambda fields: fields.size("decoder_vocab_size") or fields.needed("vocab_size")),
        "encoder": {
            **BART.document["encoder"],
            "v": size("vocab_size"),
            "tokens": choice("share_encoder_decoder_embeddings", true="shared", false="own"),
        },
    },
    names={"encoder.embedding.token": "model.encoder.embed_tokens"},
)

M2M100 = BART.but(
    document={
        **_PRE,
        "position": "sinusoidal",
        "embedding": {"scale": _scale, "sinusoids": "tensor2tensor", "offset": 2},
        "head": None,
    },
)

# --- NLLB-MoE ---------------------------------------------------------------------------------------------------------


def sparse(side: str) -> Hole:
    """Every so many layers the last has experts."""

    def read(fields: Fields) -> str:
        n, step = fields.needed(f"{side}_layers"), fields.size(f"{side}_sparse_step", least=0)
        if n > MOST_LISTED:
            raise InputError(f"{fields.within}{side}_layers = {n}: layers of two kinds are read up to {MOST_LISTED}")
        attention = "attn+cross" if side == "decoder" else "attn"
        return expression([f"{attention}+{'moe' if step and (i + 1) % step == 0 else 'mlp'}" for i in range(n)])

    return Hole(read)


def kept(fields: Fields) -> float:
    """What dropout in training leaves of the experts, which a pass without it multiplies them by."""
    return 1.0 - (fields.number("moe_token_dropout") or 0.0)


_experts: Names = {
    "mlp.norm": "ff_layer_norm",
    "mlp.up": "ffn.fc1",
    "mlp.down": "ffn.fc2",
    "moe.norm": "ff_layer_norm",
    "moe.router": "ffn.router.classifier",
    "moe.up": "ffn.experts.expert_{e}.fc1",
    "moe.down": "ffn.experts.expert_{e}.fc2",
}
_crossed: Names = {
    "cross.norm": "cross_attention_layer_norm",
    **{f"cross.{part}": f"cross_attention.{part}_proj" for part in ("q", "k", "v", "out")},
}

#: without a capacity that leaves tokens to no expert (moe_eval_capacity_token_fraction below 1)
NLLB_MOE = M2M100.but(
    document={
        "layers": sparse("decoder"),
        "moe": {
            "n_experts": size("num_experts"),
            "top_k": 2,
            "router": "softmax",
            "normalize": True,
            "route_scale": Hole(kept),
            "bias": when("router_bias", ["router", "up", "down"], ["up", "down"]),
        },
        "encoder": {**BART.document["encoder"], "layers": sparse("encoder")},
    },
    only={"second_expert_policy": "all", "moe_eval_capacity_token_fraction": (1.0, 1)},
    irrelevant=("expert_capacity", "router_dtype", "router_ignore_padding_tokens", "router_z_loss_coef",
                "router_aux_loss_coef", "normalize_router_prob_before_dropping", "batch_prioritized_routing",
                "output_router_logits"),
    names={
        **in_layers("model.decoder.layers.{l}.", {**_experts, **_crossed}),
        **{f"encoder.{stem}": entry for stem, entry in in_layers("model.encoder.layers.{l}.", _experts).items()},
    },
)  # fmt: skip

# --- Whisper ----------------------------------------------------------------------------------------------------------


WHISPER = BART.but(
    document={
        **_PRE,
        "c": size("max_target_positions"),
        "tying": flag("tie_word_embeddings"),
        "bias": ["q", "v", "out", "mlp"],
        "embedding": {"scale": _scale},
        "head": None,
        "encoder": {
            **BART.document["encoder"],
            "c": size("max_source_positions"),
            "embedding": {},
            "front": {
                "channels": size("num_mel_bins"),
                "convolutions": [{"kernel": 3}, {"kernel": 3, "stride": 2}],
            },
        },
    },
    classes={**(BART.classes or {}), "ForCausalLM": alone("max_source_positions")},
    only={"use_weighted_layer_sum": (False, True)},
    irrelevant=("median_filter_width", "apply_spec_augment", "mask_time_prob", "mask_time_length",
                "mask_time_min_masks", "mask_feature_prob", "mask_feature_length", "mask_feature_min_masks",
                "classifier_proj_size", "alignment_heads", "forced_decoder_ids", "lang_to_id", "task_to_id",
                "no_timestamps_token_id", "is_multilingual", "num_key_value_heads"),
    names={
        "head": "proj_out",
        "encoder.embedding.front.0.conv": "model.encoder.conv1",
        "encoder.embedding.front.1.conv": "model.encoder.conv2",
        "embedding.token": "model.decoder.embed_tokens",
    },
)  # fmt: skip

READERS: dict[str, Reader] = {
    "bart": BART,
    "mbart": MBART,
    "plbart": BART,
    "mvp": MVP,
    "blenderbot": BLENDERBOT,
    "blenderbot-small": BLENDERBOT_SMALL,
    "pegasus": PEGASUS,
    "marian": MARIAN,
    "m2m_100": M2M100,
    "nllb-moe": NLLB_MOE,
    "whisper": WHISPER,
}
