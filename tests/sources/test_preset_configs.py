"""Every preset whose config.json is known, by name: the reader of that type comes to the same model."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
from msgspec import Struct
from msgspec.structs import replace

from gptcalc.analysis.params import params
from gptcalc.architecture import Architecture, Attention, Rope
from gptcalc.document import build
from gptcalc.sources import preset
from gptcalc.sources.huggingface import read
from tests import TESTS

#: preset -> config.json; many were written down without the fields that equal a class's default, some without others
CONFIGS: dict[str, dict[str, Any]] = json.loads((TESTS / "data" / "preset_configs.json").read_text(encoding="utf-8"))

#: fields that may differ where the copy leaves out every one of these keys, so that the class's default counts
LEFT_OUT: dict[str, tuple[str, ...]] = {
    "eps": ("rms_norm_eps", "layer_norm_epsilon", "layer_norm_eps", "norm_eps"),
    "window": ("sliding_window",),
    "score_scale": ("query_pre_attn_scalar",),
    "theta": ("rope_theta", "rotary_emb_base"),
    "scaling": ("rope_scaling",),
    "activation": ("hidden_act", "activation_function", "hidden_activation"),
}

#: configs that say something else than the model does: the fields, and why
DIFFER: dict[str, tuple[set[str], str]] = {
    "afm-4.5b": ({"scaling"}, "rope_scaling without original_max_position_embeddings"),
    "deepseek-v2": ({"scaling", "n", "top_k", "score"}, "rope_scaling and the groups of experts are shortened"),
    "deepseek-v2-lite": ({"q_rank"}, "q_lora_rank: null left out, so that the class's 1536 counts"),
    "gemma-2b": ({"c"}, "4096 in the copy; the published file has 8192"),
    "gemma-7b": ({"c"}, "4096 in the copy; the published file has 8192"),
    "glm-4-32b-0414": ({"n_kv_heads"}, "8 key heads, as some tables have it; 2 in the files of its fine-tunes"),
    "glm-4-9b-0414": ({"eps"}, "the class's 1.5625e-07 written out; the published file has 1e-05"),
    "gpt-neox-20b": ({"activation"}, "gelu; the published file has gelu_fast, the tanh form"),
    "laguna-xs.2": ({"n_heads", "scale"}, "48 query heads in every layer, the class's default"),
    "minicpm-2b": ({"v", "c", "theta", "scaling"}, "the long-context variant"),
    "moonlight-16b-a3b": ({"q_rank"}, "q_lora_rank: null left out, so that the class's 1536 counts"),
    "phi-3.5-mini": ({"c"}, "the 4K model's context"),
    "qwen-72b": ({"theta"}, "the class's 10000; the published file has 1000000"),
    "qwq-32b": ({"c"}, "131072, as the file had it at first; 40960 today"),
    "sarvam-105b": ({"c"}, "the class's default"),
    "smollm3-3b": ({"c", "theta"}, "the class's defaults"),
}

#: a copy without attention_other_setting, the limits of single layers and what is rotated: much differs, this among it
SHORTENED = {"step-3.7-flash": {"c", "n_heads", "rotated", "clamp"}}

#: what things are called says nothing of what they are
LABELS = {"name", "section"}
#: what a checkpoint says, not the fields that were written down
OF_FILES = {"weights", "tied_head"}
#: two ways to say how many channels are rotated
WIDTH = ("channels", "fraction")


def fields(value: Any, path: tuple[str | int, ...] = ()) -> Iterator[tuple[tuple[str | int, ...], Any]]:
    """Every number and word by its place, and what is said in two ways in one."""
    if isinstance(value, (tuple, list)):
        yield (*path, "length"), len(value)
        for number, item in enumerate(value):
            yield from fields(item, (*path, number))
    elif isinstance(value, Rope) or not isinstance(value, Struct):
        yield path, value
    else:
        own = {name: getattr(value, name) for name in value.__struct_fields__ if name not in LABELS | OF_FILES}
        if isinstance(value, Architecture):
            del own["layers"]  # however they are repeated, they are compared one by one
        if isinstance(value, Attention):
            own |= {"score_scale": value.score_scale, "scores": replace(value.scores, scale=None)}
        rope = own.pop("rope", None)
        if isinstance(rope, Rope):
            width = getattr(value, "d_head", 0)
            own["rotated"] = rope.channels or rope.fraction * width
            own |= {
                name: getattr(rope, name) for name in rope.__struct_fields__ if name not in ("channels", "fraction")
            }
        for name, item in own.items():
            yield from fields(item, (*path, name))


def differing(a: Architecture, b: Architecture) -> set[str]:
    """The fields in which two models differ, of whatever layer; all of a rotary scaling is one."""
    pairs = {(id(one), id(other)): (one, other) for one, other in zip(a.blocks(), b.blocks(), strict=False)}
    found = {"length"} if len(list(a.blocks())) != len(list(b.blocks())) else set()
    for one, other in [(dict(fields(x)), dict(fields(y))) for x, y in ((a, b), *pairs.values())]:
        places = [place for place in one | other if one.get(place) != other.get(place)]
        found |= {"scaling" if "scaling" in place else str(place[-1]) for place in places}
    return found


@pytest.mark.parametrize("name", sorted(CONFIGS))
def test_reader_and_preset_agree(name: str) -> None:
    config = CONFIGS[name]
    said = {*config, *(config.get("rope_parameters") or config.get("rope_scaling") or {})}
    found = differing(build(read(config).document), build(preset.named(name)))
    unexplained = {field for field in found if not LEFT_OUT.get(field) or said & set(LEFT_OUT[field])}
    if name in SHORTENED:
        assert unexplained >= SHORTENED[name]
    else:
        assert unexplained == DIFFER.get(name, (set(), ""))[0]


def test_modules_of_their_own_choice() -> None:
    """GLM-5.2's multi-token-prediction module has an indexer, though the model's last layer has none."""
    for name in ("glm-5.2", "glm-5.3"):
        assert params(build(read(CONFIGS[name]).document)).mtp == params(build(preset.named(name))).mtp
