"""Models of images, sound and video around a text model: where its config lies, its type, and whether it is tied.

Which types have others inside, and of which type these are where they don't say, transformers' classes tell
(classes.json); here stand the vendors' own.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from msgspec import Struct

from gptcalc.errors import InputError, is_count, printable
from gptcalc.sources.huggingface.classes import class_of
from gptcalc.sources.huggingface.families import READERS
from gptcalc.sources.huggingface.fields import shown
from gptcalc.sources.huggingface.unread import Ignored, tolerance

#: where multimodal configs keep the config of their text model; a type inside may have another inside
NESTED = (
    ("text_config",),
    ("thinker_config", "text_config"),
    ("language_config",),
    ("llm_config",),
    ("llm_cfg",),
    ("thinker_config",),
    ("vlm_config", "text_config"),
)

#: types of text models inside larger ones that say none, where transformers has no class for the larger
TEXT_TYPES = {
    "kimi_vl": "deepseek_v3",
    "step3_vl": "step3_text",
    "step3p7": "step3p5",
    "deepseek_vl_v2": "deepseek_v2",
    "phi3_v": "phi3",
    "phi4mm": "phi4_multimodal",
    "bunny-phi": "phi",
    "bunny-llama": "llama",
    "bunny-qwen": "qwen2",
    "llava_llama": "llama",
    "llava_mistral": "mistral",
    "llava_qwen": "qwen2",
    "internvl_chat": "qwen2",
    "maira2": "llama",
    "logics": "qwen3",
    "videollama3_qwen2": "qwen2",
    "dots_ocr": "qwen2",
    "Keye": "qwen3",
    "mobilevlm": "llama",
}
#: LLaVA's code and what was made of it put a tower, which this field names, before the type that their own ends with
LLAVA = "mm_vision_tower"
LLAVA_TYPE = re.compile(r"\w+[_-](llama|mistral|mixtral|qwen|qwen2|qwen3|gemma|gemma2|phi|phi3|mpt|stablelm|cohere)")

#: types whose releases have text models of several types, flat in the config -> a field that only one type's class has
SEVERAL = {"minicpmv": {"max_window_layers": "qwen2", "scale_emb": "minicpm", "pretraining_tp": "llama"}}
SEVERAL["minicpmo"] = SEVERAL["minicpmv"]
#: what their configs say of a vision tower among the text model's own fields
FLAT_TOWER = frozenset({
    "drop_vision_last_layer", "image_size", "patch_size", "query_num", "vision_encoder", "vision_batch_size",
    "slice_mode", "slice_config", "use_image_id", "batch_vision_input", "max_slice_nums", "scale_resolution",
    "mm_use_im_start_end",
})  # fmt: skip
#: several models that call themselves alike
SEVERAL["chatglm"] = {"position_encoding_2d": "chatglm-6b", "inner_hidden_size": "chatglm-6b"}
SEVERAL["minimind"] = {"dim": "minimind-1", "num_experts": "minimind-3", "head_dim": "minimind-3"}
SEVERAL["kimi_linear"] = dict.fromkeys(
    (
        "attn_res_block_size", "routed_expert_hidden_size", "latent_moe_use_norm", "mla_use_output_gate",
        "activation_situ_beta", "activation_situ_linear_beta",
    ), "kimi_k3_text",
)  # fmt: skip


def flat_type(config: Mapping[str, Any]) -> str | None:
    """The type of a text model whose fields stand flat in the larger one's config, told by a field of its own."""
    marks = SEVERAL.get(str(config.get("model_type")), {})
    return next((kind for field, kind in marks.items() if field in config), None)


def llava_type(config: Mapping[str, Any]) -> str | None:
    """The type of the text model of LLaVA and its kin: cambrian_llama -> llama. Of Qwen's generations only the third
    says whether attention has biases."""
    found = LLAVA_TYPE.fullmatch(str(config.get("model_type"))) if isinstance(config.get(LLAVA), str) else None
    if found is not None and found[1] == "qwen":
        return "qwen3" if "attention_bias" in config else "qwen2"
    return None if found is None else found[1]


FLAG = "tie_word_embeddings"
#: what only the whole says, and means its text model: labels, the delay of a sound, how long blocks are
OF_THE_WHOLE = ("num_labels", "id2label", "default_num_delay_tokens", "canvas_length")
TEXT, THINKER = "text_config", "thinker_config"
#: where larger models keep what sees and hears, beside fields of the text model; types whose configs don't say it
TOWERS = ("vision_config", "audio_config", "visual")
AROUND = ("molmo",)
LEFT_OUT = "text model of a multimodal config; the rest is left out"


class Text(Struct, frozen=True):
    """A text model's own config, where in the whole it stands ("" for the whole itself), the types around it from the
    outermost on, and what a person should know."""

    values: Mapping[str, Any]
    place: str
    around: tuple[str, ...]
    notes: list[str]


def text_model(config: Mapping[str, Any]) -> Text:
    """The text model of a config, which may be the whole of it."""
    outer = config.get("model_type")
    around = (outer,) if isinstance(outer, str) else ()
    for path in NESTED:
        inner, holder = _inside(config, path)
        if inner is None:
            continue
        place = ".".join(path)
        if (left := left_aside(outer, path[0])) is not None:
            return of_the_class(str(outer), without(config, path[0]), [left])
        between = holder.get("model_type")
        if holder is not config and isinstance(between, str):
            around = (*around, between)
        notes = [f"text model of a multimodal config ({place}); the rest is left out"]
        return Text(merged(inner, config, holder, path, notes), place, around, notes)
    own = flat_type(config)
    if outer in READERS:
        more = outer in AROUND or any(isinstance(config.get(key), Mapping) for key in TOWERS)
        return Text(config if own is None else {**config, "model_type": own}, "", around, [LEFT_OUT] * more)
    if any(part_of(outer, part) for part in (TEXT, THINKER)):
        return of_the_class(str(outer), config, [])
    kind = TEXT_TYPES.get(str(outer)) or own or llava_type(config)
    if kind is not None:
        values = {key: value for key, value in config.items() if own is None or key not in FLAT_TOWER}
        return Text({**values, "model_type": kind}, "", around, [LEFT_OUT])
    return Text(config, "", around, [])


def of_the_class(outer: str, config: Mapping[str, Any], notes: list[str]) -> Text:
    """The text model that a larger class assumes where its config has none, with what the whole says flat."""
    types = (outer, *filter(None, (part_of(outer, THINKER),)))
    whole = class_of(types[-1])
    tied = None if whole is None or whole.ties is None else whole.ties[0] == "1"
    own = {**({} if tied is None else {FLAG: tied}), **assumed(types[-1], TEXT, "absent")}
    kind = {"model_type": part_of(types[-1], TEXT)}
    return Text({**own, **({FLAG: tied} if tied else {}), **config, **kind}, "", types, [*notes, LEFT_OUT])


def assumed(outer: Any, part: str, case: str) -> Mapping[str, Any]:
    known = class_of(outer) if isinstance(outer, str) else None
    return known.inside.get(part, {}).get(case, {}) if known else {}


def without(config: Mapping[str, Any], part: str) -> dict[str, Any]:
    return {name: value for name, value in config.items() if name != part}


def left_aside(outer: Any, part: str) -> Ignored | None:
    """The note that the larger model's class doesn't look into the part with the text model, but takes one of its own.

    Qwen3-ASR's first files have their own code's thinker_config; transformers' class of that type takes its defaults.
    So class and file disagree, and the class is counted, as everywhere.
    """
    known = class_of(outer) if isinstance(outer, str) else None
    if known is None or not known.parts or part in known.parts:
        return None
    problem = f"transformers' class of {outer} doesn't read it and assumes a text model of its own"
    if TEXT not in known.parts or (tolerance().strict and part not in tolerance().ignore):
        raise InputError(f"{part}: {problem}", f"the contents of {part}, given alone, are counted", "unsupported")
    stored = f"what a checkpoint with this config stores is what {part} says: given alone, that is counted"
    return Ignored(f"{part} is ignored: {problem}, which is counted; {stored}", [part])


def _inside(config: Mapping[str, Any], path: tuple[str, ...]) -> tuple[Mapping[str, Any] | None, Mapping[str, Any]]:
    """What stands at a path, and in what. None where nothing does."""
    inner: Any = config
    holder = config
    for depth, key in enumerate(path):
        holder = inner
        inner = inner.get(key)
        if inner is None:
            return None, holder
        if not isinstance(inner, Mapping):
            place = ".".join(path[: depth + 1])
            raise InputError(f"{place}: expected an object, found {printable(type(inner).__name__)}")
    return inner, holder


def merged(
    inner: Mapping[str, Any],
    config: Mapping[str, Any],
    holder: Mapping[str, Any],
    path: tuple[str, ...],
    notes: list[str],
) -> Mapping[str, Any]:
    """A text config with what the whole says of it: its type where it has none, and whether it is tied."""
    values = dict(inner)
    for said, place in ((inner, ".".join(path)), (holder, ".".join(path[:-1]))):
        if not isinstance(kind := said.get("model_type"), str | None):
            key = f"{place}.model_type".removeprefix(".")
            raise InputError(f"{key}: expected a name, found {printable(repr(kind), 60)}")
    outer = holder.get("model_type") or config.get("model_type")
    if inner.get("model_type") in (None, part_of(outer, path[-1])):
        values = {**assumed(outer, path[-1], "given"), **inner}
    if values.get("model_type") is None:
        kind = text_type(outer, path[-1])
        if kind is not None:
            values["model_type"] = kind
    elif values["model_type"] not in READERS:  # a type that the larger class doesn't look at
        outers = (holder.get("model_type"), config.get("model_type"))
        kind = next((kind for kind in (part_of(outer, path[-1]) for outer in outers) if kind is not None), None)
        if kind is not None and class_of(values["model_type"]) is None:
            values["model_type"] = kind
    values["model_type"] = flat_type(values) or values.get("model_type")
    for name in OF_THE_WHOLE:
        if values.get(name) is None and name in config:
            values[name] = config[name]
    found = tie(values, config, holder, ".".join(path), notes)
    if found is not None:
        values[FLAG] = found
    return values


def text_type(outer: Any, key: str) -> str | None:
    """The type of a text config that says none, inside one of this type."""
    if not isinstance(outer, str):
        return None
    inner = part_of(outer, key) or TEXT_TYPES.get(outer)
    if inner is not None:
        return inner
    return f"{outer}_text" if f"{outer}_text" in READERS else outer


def part_of(outer: Any, key: str) -> str | None:
    known = class_of(outer) if isinstance(outer, str) else None
    return known.parts.get(key) if known else None


def tie(
    inner: Mapping[str, Any], config: Mapping[str, Any], holder: Mapping[str, Any], place: str, notes: list[str]
) -> bool | None:
    """Whether output and embedding are one table. None: what the text model's class assumes.

    The whole model's class decides by the whole's flag, some of them by either flag. transformers 5 writes both, the
    text's without meaning; older configs, whose class did not read the whole's flag, often have the text's alone.
    Where the whole says nothing, its class assumes a tie and no transformers 5 wrote the file, the text's flag decides
    as it did then: such a class unties again where a checkpoint holds two matrices (Kimi K2.5, LightOnOCR).
    Made of such a config without a checkpoint, it is tied.
    """
    outside = next((where[FLAG] for where in (holder, config) if isinstance(where.get(FLAG), bool)), None)
    inside = inner.get(FLAG)
    if inside is not None and not isinstance(inside, bool):
        return None
    classes = [class_of(str(where.get("model_type"))) for where in (holder, config)]
    known = next((found for found in classes if found is not None and found.ties), None)
    by_default = known is not None and known.ties is not None and known.ties[0] == "1" and outside is None
    if known is None or known.ties is None or (by_default and not by_transformers_5(config)):
        found = outside if inside is None else inside
    else:
        column = [None, True, False]
        found = known.ties[3 * column.index(outside) + column.index(inside)] == "1"
    if outside is not None and inside is not None and outside != inside:
        who = "the whole model" if found == outside else place
        notes.append(f"{FLAG} is {shown(outside)} for the whole model and {shown(inside)} in {place}; {who} decides")
    elif found and not outside and not inside and known is not None:
        notes.append(f"{FLAG} is said nowhere; the class of {config.get('model_type')} assumes true")
    elif by_default and not found and (found is False or unties(inner)):
        when = "is counted as when it was written; made without a checkpoint, transformers 5's class ties them"
        notes.append(f"{FLAG} is not said for the whole model, which {when}")
    return found


def unties(text: Mapping[str, Any]) -> bool:
    """Whether a text model's own class leaves them apart where nothing is said."""
    known = class_of(str(text.get("model_type")))
    return known is not None and known.defaults.get(FLAG) is False


def by_transformers_5(config: Mapping[str, Any]) -> bool:
    version = config.get("transformers_version")
    return isinstance(version, str) and is_count(version.split(".")[0]) and int(version.split(".")[0]) >= 5
