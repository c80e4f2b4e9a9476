"""From a GGUF file's metadata and tensors to a document: what llama.cpp would run, in a preset's words.

Sizes come from the metadata; what is there at all (norms, biases, gates, experts, a head) from the tensors, as in
llama.cpp; what neither says from the architecture's style.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, get_args

from gptcalc.architecture import Ggml
from gptcalc.errors import InputError, did_you_mean, printable
from gptcalc.sources.gguf.attention import Mixers
from gptcalc.sources.gguf.experts import feed_forward
from gptcalc.sources.gguf.metadata import Facts
from gptcalc.sources.gguf.styles import STYLES, UNREAD, Style
from gptcalc.sources.huggingface.pattern import expression

#: other things than language models that GGUF files hold
NO_MODEL = {"clip": "a projector for images or sound, without a language model", "wavtokenizer-dec": "a vocoder"}


def document(facts: Facts, name: str) -> dict[str, Any]:
    """The document of a GGUF file, with every key spelled out.

    InputError where its architecture is unknown or a size is missing or wrong.
    """
    if facts.architecture in ("t5", "t5encoder"):
        from gptcalc.sources.gguf import t5

        return {"name": name, **t5.document(facts), "storage": weights(facts)}
    style = style_of(facts)
    sections = Sections()
    layers = []
    mixers = Mixers(facts, style)
    for layer in range(facts.n_layers):
        parts = [sections.name(mixer) for mixer in mixers.of(layer)]
        units = [sections.name(unit) for unit in feed_forward(facts, style, layer)]
        if not parts and not units:
            raise InputError(
                f"blk.{layer}: neither attention nor a feed-forward part that is understood", kind="unsupported"
            )
        layers.append(joined(facts, layer, parts, units))
    whole = {
        **top_level(facts, style),
        **sections.common(),
        **parallel(facts),
        **extras(facts),
        "layers": expression(layers),
        **sections.written(),
        "mtp": modules(facts),
        "storage": storage(facts),
    }
    return {"name": name, **noted(facts), **without_nothing(whole)}


def refuse(name: object) -> None:
    """Architectures that are known and not read; of what is no language model the metadata have other keys."""
    if isinstance(name, str) and (why := NO_MODEL.get(name, UNREAD.get(name))) is not None:
        raise InputError(f"general.architecture {name!r}: {why}", kind="unsupported")


def style_of(facts: Facts) -> Style:
    name = facts.architecture
    refuse(name)
    if name not in STYLES:
        problem = f"general.architecture {printable(name)!r} is not known"
        raise InputError(problem, did_you_mean(name, STYLES), "unsupported")
    return STYLES[name]


# --- the whole model --------------------------------------------------------------------------------------------------


def top_level(facts: Facts, style: Style) -> dict[str, Any]:
    table = facts.whole("token_embd")
    if table is None:
        raise InputError("tensor token_embd.weight is missing")
    learned = facts.whole("position_embd")
    d = facts.size("embedding_length")
    logit_scale = facts.number("logit_scale")
    embedding_scale = facts.number("embedding_scale")
    last = facts.whole("output_norm") is not None
    types = facts.whole("token_types")
    normed = facts.whole("token_embd_norm") is not None
    head = instead_of_logits(facts, style)
    return {
        "d": d,
        "v": table[0],
        "c": facts.size("context_length"),
        "n_layers": facts.n_layers,
        "causal": False if style.encoder else None,
        "head": head,
        "tying": None if head else style.tied or facts.whole("output") is None,
        "position": "learned" if learned else None,
        "norm": norm(facts),
        "final_norm": None if last or facts.unweighted() or (normed and not style.encoder) else False,
        "bias": ["head"] if facts.whole("output", "bias") else None,
        "softcap": facts.number("final_logit_softcapping") or None,
        "logit_scale": (1 / logit_scale if style.divides_logits else logit_scale) if logit_scale else None,
        "residual_scale": facts.number("residual_scale") or None,
        "embedding": without_nothing(
            {
                "scale": embedding_scale or ("sqrt(d)" if style.scaled_embedding else None),
                "norm": True if normed and (last or style.encoder) else None,  # else it is the last norm (LFM2)
                "types": types[0] if types and len(types) > 1 else None,
                "rows": learned[0] if learned else None,
            }
        )
        or None,
    }


def instead_of_logits(facts: Facts, style: Style) -> dict[str, Any] | None:
    """What an encoder or a ranking model has in place of logits: labels read off its first token, a decoder's last one,
    through a dense layer or as it is."""
    labels, dense = facts.whole("cls.output"), facts.whole("cls")
    if labels is None and dense is None:
        return {"vocabulary": False} if style.encoder else None
    function = "gelu" if facts.architecture == "modern-bert" else "tanh"
    layer = {
        "function": function,
        "bias": facts.whole("cls", "bias") is not None,
        "norm": norm(facts) if facts.whole("cls.norm") is not None else False,
    }
    pooler = {
        "token": "first" if style.encoder else "last",
        "dense": None if dense is None else layer,
        "labels": None if labels is None else labels[0],
        "bias": facts.whole("cls.output", "bias") is not None,
    }
    return {"vocabulary": False, "pooler": {key: value for key, value in pooler.items() if value is not None}}


def storage(facts: Facts) -> dict[str, Any]:
    """What the file says of how its weights lie: which are one matrix, and llama.cpp's rules for more such files."""
    gate, up = facts.shape(0, "ffn_gate"), facts.shape(0, "ffn_up")
    down = facts.shape(0, "ffn_down")
    both = gate is None and up is not None and down is not None and up[0] == 2 * down[-1]
    fused = {"qkv": facts.has(0, "attn_qkv"), "gate_up": both}
    known = {"gguf": facts.architecture} if facts.architecture in get_args(Ggml) else {}
    return {"fused": [word for word, there in fused.items() if there], **weights(facts), **known}


#: llama.cpp's numbers for what most matrices of a file are (general.file_type), by the names that --dtype knows
FILE_TYPES = {
    0: "fp32", 1: "f16", 2: "q4_0", 3: "q4_1", 7: "q8_0", 8: "q5_0", 9: "q5_1", 10: "q2_k", 11: "q3_k_s", 12: "q3_k_m",
    13: "q3_k_l", 14: "q4_k_s", 15: "q4_k_m", 16: "q5_k_s", 17: "q5_k_m", 18: "q6_k", 19: "iq2_xxs", 20: "iq2_xs",
    21: "q2_k_s", 22: "iq3_xs", 23: "iq3_xxs", 24: "iq1_s", 25: "iq4_nl", 26: "iq3_s", 27: "iq3_m", 28: "iq2_s",
    29: "iq2_m", 30: "iq4_xs", 31: "iq1_m", 32: "gguf-bf16", 36: "tq1_0", 37: "tq2_0", 38: "mxfp4_moe",
}  # fmt: skip
UNQUANTISED = ("fp32", "f16", "gguf-bf16")


def weights(facts: Facts) -> dict[str, str]:
    """The mix of types that the file says it is, and whether an importance matrix chose it."""
    number = facts.metadata.get("general.file_type")
    mix = FILE_TYPES.get(number) if isinstance(number, int) else None
    if mix is None:
        return {}
    by_importance = "quantize.imatrix.file" in facts.metadata and mix not in UNQUANTISED
    return {"weights": f"{mix}:imatrix" if by_importance else mix}


def norm(facts: Facts) -> dict[str, Any]:
    """The model's norm: the key of its eps names its kind, the last norm's tensors what it has."""
    rms = facts.number("attention.layer_norm_rms_epsilon")
    eps = rms if rms is not None else facts.number("attention.layer_norm_epsilon")
    if facts.unweighted():
        return {"kind": "layernorm", "weight": False, "eps": eps}
    places = ("output_norm", "blk.0.attn_norm", "blk.0.attn_output_norm")
    bias = any(facts.whole(place, "bias") is not None for place in places)
    centred = bias or facts.value("attention.layer_norm_epsilon") is not None
    kind = "layernorm" if rms is None and centred else "rmsnorm"
    return without_nothing({"kind": kind, "eps": eps, "bias": bias})


def extras(facts: Facts) -> dict[str, Any]:
    """What Gemma 3n and 4 have beside their layers, and what the layers of Kimi K3 read."""
    width = facts.optional("embedding_length_per_layer_input", least=0)
    table = facts.whole("per_layer_token_embd")
    streams = facts.optional("altup.num_inputs")
    every = facts.optional("attn_res.block_size", least=0)
    gelu = "gelu_tanh"
    return {
        # its converter writes a norm and the query behind it as one
        "attention_residuals": {"every": every, "values": "raw", "scale": 1.0, "first": True} if every else None,
        "per_layer_embedding": {"v": table[0], "d": width, "activation": gelu} if width and table else None,
        "layer_scalar": facts.has(0, "layer_output_scale") or None,
        "altup": {
            "n": streams,
            "active": facts.size("altup.active_idx", 0, least=0),
            "scale": facts.has(0, "altup_correct_scale"),
        }
        if streams
        else None,
    }


def modules(facts: Facts) -> dict[str, Any] | int | None:
    """Multi-token modules are further blocks; the last block of the model is what theirs is like."""
    return facts.modules or None


def noted(facts: Facts) -> dict[str, str]:
    """Rotary frequencies that the file has in a table of its own, which a document doesn't write."""
    tables = [t for t in ("rope_freqs", "rope_factors_long", "blk.0.rope_freqs") if facts.whole(t) is not None]
    return {"note": f"rotary frequencies are divided by the file's table {tables[0]}"} if tables else {}


# --- layers -----------------------------------------------------------------------------------------------------------


def joined(facts: Facts, layer: int, parts: list[str], units: list[str]) -> str:
    """One layer's expression: one part after the other, or in parallel on the same input."""
    both, mixers = "|".join(units), "|".join(parts)
    if not parts or not units:
        return mixers or both
    if len(parts) > 1:
        mixers = f"({mixers})"
    return mixers + ("|" if is_parallel(facts, layer) else "+") + both


def is_parallel(facts: Facts, layer: int) -> bool:
    if facts.flag("use_parallel_residual"):
        return True
    if facts.has(layer, "channel_mix_key"):
        return False
    before = facts.has(layer, "attn_norm") or facts.unweighted()
    own = any(facts.has(layer, stem) for stem in ("ffn_norm", "post_attention_norm", "post_ffw_norm", "pre_ffw_norm_2"))
    return before and not own and not facts.unweighted()


def parallel(facts: Facts) -> dict[str, Any]:
    """How parallel units are normed: each by its own norm where the tensors say so."""
    beside = facts.has(0, "ffn_gate_inp") and facts.has(0, "post_ffw_norm_1")  # an MLP beside experts (Gemma 4)
    two = facts.has(0, "attn_norm_2") and is_parallel(facts, 0)
    separate = (facts.flag("use_parallel_residual") and facts.has(0, "ffn_norm")) or two
    return {"parallel_norm": "separate" if separate or beside else None, "parallel_out_norm": beside or None}


class Sections:
    """Sections by what is in them: equal sublayers of different layers are one."""

    def __init__(self) -> None:
        self.names: dict[str, str] = {}  # what a section holds -> its name
        self.held: dict[str, dict[str, Any]] = {}

    def name(self, section: Mapping[str, Any]) -> str:
        """The name of a section that holds `kind`, the built-in it is like, a `word` to call it by, and its keys."""
        content = repr(sorted(section.items()))
        if content not in self.names:
            word, number = str(section["word"]), 2
            name = word
            while name in self.held:
                name, number = f"{word}_{number}", number + 1
            self.names[content] = name
            self.held[name] = {key: value for key, value in section.items() if key not in ("word",)}
        return self.names[content]

    def common(self) -> dict[str, Any]:
        """Keys that stand for the whole model where they say the same: those of the first sections."""
        first = {kind: next((s for s in self.held.values() if s["kind"] == kind), {}) for kind in ("attn", "mlp")}
        latent = next((s for s in self.held.values() if s["kind"] == "mla"), {})
        keys = {key: first["attn"].get(key) for key in ("n_heads", "n_kv_heads", "d_head", "d_v", "rope")}
        usual = first["attn"] or latent
        own = {"n_heads": usual.get("n_heads"), "rope": usual.get("rope"), "norm_at": usual.get("norm_at")}
        return {**keys, **own, "d_ff": first["mlp"].get("d_ff")}

    def written(self) -> dict[str, dict[str, Any]]:
        """The sections as a document has them."""
        found = {}
        for name, section in self.held.items():
            keys = {key: value for key, value in section.items() if key != "kind"}
            found[name] = keys if name == section["kind"] else {"like": section["kind"], **keys}
        return found


def without_nothing(keys: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in keys.items() if value is not None}
