"""dots.llm1: a mixture with sigmoid routing, norms of queries and keys, windows in upper layers. dots3.note: latent
attention of two kinds, with chosen keys or in a window and of other sizes there."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from gptcalc.errors import InputError
from gptcalc.sources.huggingface.deepseek import DEEPSEEK_V32, LATENT, ROUTED, index, latent_scale
from gptcalc.sources.huggingface.experts import SIGMOID, SPARSE
from gptcalc.sources.huggingface.fields import Fields
from gptcalc.sources.huggingface.llama import PREFIX
from gptcalc.sources.huggingface.pattern import FULL, SLIDING, listed, stack
from gptcalc.sources.huggingface.reader import Hole, Reader, rmsnorm, sites, size
from gptcalc.sources.huggingface.rope import rope
from gptcalc.sources.huggingface.tensors import in_layers
from gptcalc.sources.huggingface.windows import TYPES, upper_layers

DOTS1 = ROUTED.but(
    document={
        "layers": stack(listed("layer_types", TYPES, upper_layers), SPARSE),
        "bias": sites(attn="attention_bias"),
        "attn": {"qk_norm": "head"},
        "local": {"like": "attn", "window": size("sliding_window")},
    },
    irrelevant=("use_sliding_window", "max_window_layers"),
)

# --- dots3.note -------------------------------------------------------------------------------------------------------

INDEXED = "indexed_attention"

#: sizes of the layers with windows, where the config leaves them to its class
OF_WINDOWS = {
    "num_attention_heads": 64,
    "num_key_value_heads": 64,
    "q_lora_rank": 1024,
    "kv_lora_rank": 1024,
    "head_dim": 256,
    "qk_nope_head_dim": 192,
    "v_head_dim": 128,
}
TURNING = "qk_rope_head_dim"


def of_windows(fields: Fields, name: str) -> int:
    """A size of the layers with windows: in the per_layer_config of each of them, which transformers writes, or in a
    field of its own, as published."""
    own = fields.size(f"swa_{name}")
    layers = fields.mapping("per_layer_config")
    if layers is not None:
        given = [layer.get(name) for layer in layers.values() if isinstance(layer, Mapping)]
        if any(value != given[0] for value in given):
            raise fields.unsupported("per_layer_config", f"layers with different {name} are not understood")
        if given and given[0] is not None:
            return Fields({name: given[0]}, {}, fields.model_type, f"{fields.within}per_layer_config.").needed(name)
        return fields.needed(name)
    if own is None and name == TURNING:
        return of_windows(fields, "head_dim") - of_windows(fields, "qk_nope_head_dim")
    return OF_WINDOWS[name] if own is None else own


def window(name: str) -> Hole:
    return Hole(lambda fields: of_windows(fields, name))


def turning(fields: Fields) -> int:
    """Channels of the rotary key in a window: with those that don't turn they are a whole head's."""
    channels, head = of_windows(fields, TURNING), of_windows(fields, "head_dim")
    if channels + of_windows(fields, "qk_nope_head_dim") != head:
        raise InputError(f"{fields.within}swa_head_dim = {head} is not swa_qk_nope_head_dim + swa_qk_rope_head_dim")
    return channels


def kinds_of_layers(fields: Fields, n: int) -> Sequence[str]:
    """Chosen keys in the first two layers and in every fourth from the second on, windows in the rest."""
    everywhere = not fields.flag("use_sliding_window")
    return ["mla" if everywhere or i < 2 or i % 4 == 1 else "local" for i in range(n)]


def layers(fields: Fields, n: int) -> Sequence[str]:
    """What stands in each layer; sizes of single layers are understood where they are those of all windows."""
    meanings = {INDEXED: "mla", SLIDING: "local"}
    sized = fields.mapping("per_layer_config")
    if sized is None:
        meanings[FULL] = "mla"  # what the published files call them
    found = listed("layer_types", meanings, kinds_of_layers)(fields, n)
    if sized is not None and set(sized) != {str(i) for i, unit in enumerate(found) if unit == "local"}:
        raise fields.unsupported("per_layer_config", "other layers than those with windows are not understood")
    known = {*OF_WINDOWS, TURNING}
    for layer in (sized or {}).values():
        if not isinstance(layer, Mapping) or set(layer) - known:
            raise fields.unsupported("per_layer_config", f"only {', '.join(sorted(known))} are understood")
    return found


def of_all_shared(fields: Fields) -> int:
    """The width of the shared experts together."""
    given = fields.size("moe_shared_expert_intermediate_size")
    each = fields.needed("shared_experts_intermediate_size") if given is None else given
    return each * fields.needed("n_shared_experts")


_of_windows: dict[str, Any] = {
    "q_rank": window("q_lora_rank"),
    "kv_rank": window("kv_lora_rank"),
    "d_nope": window("qk_nope_head_dim"),
    "d_rope": Hole(turning),
    "d_v": window("v_head_dim"),
}

DOTS3_NOTE = DEEPSEEK_V32.but(
    document={
        "layers": stack(layers, SPARSE),
        "rope": rope(layer_type=INDEXED, fraction=None, pairing="adjacent"),
        "mla": {
            **LATENT,
            "latent_norm": rmsnorm(),
            "k_rope_norm": rmsnorm(),
            "q_scale": latent_scale(size("q_lora_rank")),
            "kv_scale": latent_scale(size("kv_lora_rank")),
            "gate": "head",
            "index": index(pairing="adjacent"),
        },
        "local": {
            "like": "mla",
            "n_heads": window("num_attention_heads"),
            **_of_windows,
            "q_scale": latent_scale(_of_windows["q_rank"]),
            "kv_scale": latent_scale(_of_windows["kv_rank"]),
            "rope": rope("swa_rope_theta", layer_type=SLIDING, fraction=None, pairing="adjacent"),
            "index": "none",
            "window": size("sliding_window", "sliding_window_size"),
        },
        "moe": {**SIGMOID, "d_shared": Hole(of_all_shared)},
        "mtp": None,  # a layer with a window; what else stands in it is not known
    },
    defaults={
        "first_k_dense_replace": 1,
        "sliding_window": 512,
        "swa_rope_theta": 50_000.0,
        "use_dsa": True,
        "use_sliding_window": True,
    },
    only={"layer_types": (), "use_dsa": True},
    irrelevant=("swa_num_key_value_heads", "num_key_value_heads"),
    beyond=[f"swa_{name}" for name in OF_WINDOWS],
    names=in_layers(PREFIX, {"attn.k_rope_norm": "self_attn.k_rope_only_layernorm", "attn.gate": "self_attn.g_proj"}),
)

READERS: dict[str, Reader] = {"dots1": DOTS1, "dots3_note_text": DOTS3_NOTE}
