"""Makes gptcalc/sources/huggingface/classes.json: what transformers' class of each type reads of a config.json.

    python -m tests.sources.make_classes          # in an environment with torch and transformers 5.24; minutes
    python -m tests.sources.make_classes llama    # one type alone

A field that a type's class doesn't read can't change what that class counts. So the list is taken from the classes
themselves: every attribute of a config that the source of the type's models, and of all that they are built from,
mentions (a superset of what any one config makes them read). Beside it stand the defaults that the config class
declares, the other names it knows (`attribute_map`), and the names of the type's model classes.
"""

from __future__ import annotations

import ast
import importlib
import inspect
import json
import re
import sys
import textwrap
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import MISSING, fields
from functools import cache
from pathlib import Path
from types import FunctionType, ModuleType
from typing import Any

from gptcalc.sources.huggingface.families import READERS
from gptcalc.sources.huggingface.rope import THETA

TARGET = Path(__file__).parents[2] / "gptcalc/sources/huggingface/classes.json"

#: fields of every config, which say nothing about the architecture
COMMON = frozenset({
    "transformers_version", "architectures", "output_hidden_states", "return_dict", "dtype", "chunk_size_feed_forward",
    "is_encoder_decoder", "id2label", "label2id", "problem_type", "bos_token_id", "eos_token_id",
    "use_cache", "initializer_range",
})  # fmt: skip

#: what the shared code of rotary positions reads, where a class has any
ROTARY = ("rope_theta", "rope_scaling", "rope_parameters", "partial_rotary_factor", "max_position_embeddings",
          "original_max_position_embeddings")  # fmt: skip
#: what the shared code of masks reads, by the function that a model calls
MASKS = {
    "create_sliding_window_causal_mask": ("sliding_window",),
    "create_chunked_causal_mask": ("attention_chunk_size",),
    "create_bidirectional_sliding_window_mask": ("sliding_window",),
}


def main(types: Sequence[str]) -> None:
    """All types, or the given ones anew."""
    known = json.loads(TARGET.read_text("utf-8")) if types else {}
    table = {**known, **{model_type: entry(model_type) for model_type in types or wanted()}}
    table = dict(sorted(table.items()))
    lines = (f"{json.dumps(t)}: {json.dumps(e, separators=(',', ':'))}" for t, e in table.items() if e is not None)
    TARGET.write_text("{\n" + ",\n".join(lines) + "\n}\n", "utf-8")


def wanted() -> set[str]:
    """The types that have readers, and those of transformers that have such a type inside."""
    found = {*READERS, *(reader.like for reader in READERS.values() if reader.like)}
    outer = {t for t in configs() if set(parts(t).values()) & found}
    return found | outer | {t for t in configs() if set(parts(t).values()) & outer}


@cache
def configs() -> Any:
    return importlib.import_module("transformers.models.auto.configuration_auto").CONFIG_MAPPING_NAMES


def config_of(model_type: str) -> Any:
    return importlib.import_module("transformers.models.auto.configuration_auto").CONFIG_MAPPING[model_type]


def parts(model_type: str) -> dict[str, str]:
    """Where a config has others inside, and which type each has where it doesn't say."""
    try:
        inside = config_of(model_type).sub_configs_defaults
    except (ImportError, AttributeError, KeyError):
        return {}
    return {key: spec.model_type for key, spec in inside.items() if key.startswith(TEXTS) and spec.model_type}


#: how the parts are called that hold a text model
TEXTS = ("text_config", "thinker_config", "llm_config", "language_config")


def inside_by_default(config: Any, key: str) -> dict[str, Any]:
    """What a config assumes of a part of its own where that part's class assumes something else: `absent` where the
    part is missing, `given` where it is there and leaves a field out."""
    spec = config.sub_configs_defaults[key]
    usual = config_of(spec.model_type)().to_dict() if spec.model_type in configs() else {}
    found = {}
    for case, part in (("absent", None), ("given", {"model_type": spec.model_type})):
        try:
            made = getattr(config(**({} if part is None else {key: part})), key).to_dict()
        except Exception as error:
            print(f"{config.model_type} can't be made with {key} {case}: {type(error).__name__}: {str(error)[:100]}")
            continue
        own = {n: v for n, v in made.items() if isinstance(v, (int, float, str)) and usual.get(n) != v}
        if spec.init_kwargs and not all(made.get(n, v) == v for n, v in spec.init_kwargs.items()):
            own = {}  # which stand for a missing part alone
        elif own and spec.init_kwargs:
            declared = defaults(config_of(spec.model_type))
            own = {n: v for n, v in spec.init_kwargs.items() if n not in declared or declared[n] != v}
        own = {n: v for n, v in own.items() if n not in (*COMMON, "model_type", "_name_or_path")}
        if own:
            found[case] = own
    return found


def entry(model_type: str) -> dict[str, Any] | None:
    """What is to know of a type's class; None where transformers has none."""
    if model_type not in configs():
        return None
    config = config_of(model_type)
    own, around = models_of(model_type, config)
    names = dict(config.attribute_map)
    found = set().union(*(mentions(one) for one in reachable([*own, config])), read_by_itself(config))
    found |= set().union(*(mentions(one, of_text=True) for one in around))
    declared = {field.name for field in fields(config)}
    said: dict[str, Any] = {"classes": sorted(model.__name__ for model in own), "names": names}
    said["defaults"] = defaults(config)
    if "rope_parameters" in declared | found:
        found |= set(ROTARY)
        if isinstance(config.default_theta, (int, float)) and config.default_theta != THETA:
            said["defaults"].setdefault("rope_theta", config.default_theta)
        said["partial"] = any(turns_a_part(one) for one in reachable(own))
    found.discard(FLAG)  # which decides only where a class says what it would tie
    if any(getattr(model, "_tied_weights_keys", None) for model in (*own, *around)):
        found.add(FLAG)
    methods = {name for name in dir(config) if callable(getattr(config, name, None))}
    said["reads"] = sorted({names.get(n, n) for n in found - methods - COMMON if not n.startswith("_")})
    if "rope_scaling" in declared and "rope_scaling" not in set().union(*(mentions(one) for one in reachable(own))):
        said["reads"].remove("rope_scaling")  # a field of its own, which the shared code doesn't see
    if any(DIVIDES.search(ast.unparse(tree(one))) for one in (*reachable(own), *filter(of_a_model, config.__mro__))):
        said["divides"] = True
    if inside := parts(model_type):
        said["parts"] = inside
        said["ties"] = ties(model_type, own)
        said["inside"] = {key: assumes for key in inside if (assumes := inside_by_default(config, key))}
    return said


def models_of(model_type: str, config: type) -> tuple[list[type], list[type]]:
    """The model classes of a config, and the other classes beside them, which may read it as a part of their own."""
    package = config.__module__.rpartition(".")[0]
    folder = Path(inspect.getfile(config)).parent
    modules = [importlib.import_module(f"{package}.{file.stem}") for file in sorted(folder.glob("modeling_*.py"))]
    classes = [v for m in modules for v in vars(m).values() if inspect.isclass(v) and v.__module__ == m.__name__]
    own = [
        one for one in classes
        if getattr(one, "config_class", None) is config and not one.__name__.endswith("PreTrainedModel")
    ]  # fmt: skip
    auto = importlib.import_module("transformers.models.auto.modeling_auto")
    transformers = importlib.import_module("transformers")
    for name, mapping in vars(auto).items():
        if name.startswith("MODEL_") and name.endswith("MAPPING_NAMES") and model_type in mapping:
            listed = mapping[model_type]
            for one in listed if isinstance(listed, (list, tuple)) else [listed]:
                model = getattr(transformers, one, None)  # a few are listed and not to be had
                if model is not None and model not in own:
                    own.append(model)
    return own, [one for one in classes if one not in own] if parts(model_type) == {} else []


def ties(model_type: str, models: list[type]) -> str | None:
    """Whether the whole model shares its table of embeddings with its output: 0 or 1 for each of nine cases, the whole
    config's flag absent, true or false, and for each of them the text config's."""
    [key, inner], *_ = parts(model_type).items()
    whole = [m for end in ("ForConditionalGeneration", "ForCausalLM") for m in models if m.__name__.endswith(end)]
    if not whole:
        return None
    found = ""
    for outside in (None, True, False):
        for inside in (None, True, False):
            text = {"model_type": inner, **SMALL, **({} if inside is None else {FLAG: inside})}
            said = {key: text, "pad_token_id": 0, **({} if outside is None else {FLAG: outside})}
            try:
                found += str(int(tied(config_of(model_type)(**said), whole[0])))
            except Exception as error:
                print(f"{model_type} can't be built: {type(error).__name__}: {str(error)[:150]}")
                return unbuilt_ties(config_of(model_type))
    return found


def unbuilt_ties(config: Any) -> str | None:
    """The same for a class that can't be built here: the whole's flag decides, or either where its config says so."""
    usual = defaults(config).get(FLAG)
    if usual is None:
        return None
    either = "text_config.tie_word_embeddings" in inspect.getsource(config)
    return "".join(str(int(usual if out is None else out or (either and into is True)))
                   for out in (None, True, False) for into in (None, True, False))  # fmt: skip


#: a check that a width is a multiple of the number of heads, in either of its forms
HEADS = r"(self\.|config\.)*(num_attention_heads|num_heads|n_heads?|encoder_attention_heads)"
DIVIDES = re.compile(rf"% {HEADS}\b|head_(dim|size) \* {HEADS}\)? !=|{HEADS} \* self\.head_(dim|size)\)? !=")
FLAG = "tie_word_embeddings"
SMALL = {"num_hidden_layers": 2}


def tied(config: Any, model: Any) -> bool:
    torch = importlib.import_module("torch")
    with torch.device("meta"):
        built = model(config)
    output = built.get_output_embeddings()
    return output is not None and output.weight is built.get_input_embeddings().weight


def defaults(config: Any) -> dict[str, Any]:
    """The defaults that a config class declares, as far as JSON can say them."""
    found = {}
    for field in fields(config):
        value = field.default if field.default is not MISSING else None
        if field.default_factory is not MISSING:
            value = field.default_factory()
        if field.name in COMMON or field.name in config.sub_configs_defaults:
            continue
        try:
            json.dumps(value, allow_nan=False)
        except (TypeError, ValueError):
            continue
        found[field.name] = value
    return found


# --- what is built from what ------------------------------------------------------------------------------------------


def reachable(roots: Iterable[Any]) -> list[Any]:
    """Classes and functions of transformers' models that these are made of, themselves included."""
    waiting, seen = list(roots), []
    while waiting:
        one = waiting.pop()
        if one in seen:
            continue
        seen.append(one)
        if inspect.isclass(one):
            waiting += [base for base in one.__mro__[1:] if of_a_model(base)]
        module: ModuleType | None = inspect.getmodule(one)
        for name in names_in(one):
            value = getattr(module, name, None)
            for item in value.values() if isinstance(value, dict) else (value,):
                if of_a_model(item):
                    waiting.append(item)
    return seen


def of_a_model(value: Any) -> bool:
    if not (inspect.isclass(value) or isinstance(value, FunctionType)):
        return False
    return value.__module__.startswith("transformers.models.") and ".auto." not in value.__module__


@cache
def tree(value: Any) -> ast.AST:
    try:
        return ast.parse(textwrap.dedent(inspect.getsource(inspect.unwrap(value))))
    except (OSError, TypeError):
        return ast.Module([], [])


def names_in(value: Any) -> Iterator[str]:
    for node in ast.walk(tree(value)):
        if isinstance(node, ast.Name):
            yield node.id


# --- what is read of a config -----------------------------------------------------------------------------------------


def is_config(node: ast.AST) -> bool:
    """config, text_config, self.config, model.config.text_config …"""
    word = node.id if isinstance(node, ast.Name) else node.attr if isinstance(node, ast.Attribute) else ""
    return word.endswith("config") or word in ("cfg", "args_config")


def of_a_text(node: ast.AST) -> bool:
    """text_config, self.config.text_config, config.get_text_config() …"""
    word = node.id if isinstance(node, ast.Name) else node.attr if isinstance(node, ast.Attribute) else ""
    return word.startswith(TEXTS) or (isinstance(node, ast.Call) and "get_text_config" in ast.unparse(node.func))


def turns_a_part(value: Any) -> bool:
    """Whether the rotation that a model computes itself reads the share of channels that turn."""
    return any(
        isinstance(node, ast.FunctionDef)
        and re.match(r"compute_\w*rope_parameters$", node.name)
        and "partial_rotary_factor" in ast.unparse(node)
        for node in ast.walk(tree(value))
    )


def mentions(value: Any, of_text: bool = False) -> set[str]:
    """The attributes of configs that a class or function mentions."""
    belongs = of_a_text if of_text else is_config
    found = set()
    for node in without_rotations(tree(value)):
        match node:
            case ast.Attribute(value=owner, attr=name) if belongs(owner):
                found.add(name)
            case ast.Call(func=ast.Name(id="getattr" | "hasattr"), args=[owner, ast.Constant(value=str(name)), *_]):
                if belongs(owner):
                    found.add(name)
            case ast.Name(id=name) if name in MASKS:
                found |= set(MASKS[name])
    return found


def without_rotations(node: ast.AST) -> Iterator[ast.AST]:
    """All nodes but those of default rotations, which ask for a head's width that attention may not have."""
    if isinstance(node, ast.FunctionDef) and re.match(r"compute_\w*rope_parameters$", node.name):
        return
    yield node
    for inner in ast.iter_child_nodes(node):
        yield from without_rotations(inner)


def read_by_itself(config: type) -> set[str]:
    """What a config class takes from what it is given: older names in **kwargs, and fields that decide others."""
    found = set()
    for one in config.__mro__:
        if not of_a_model(one):
            continue
        for function in ast.walk(tree(one)):
            if not isinstance(function, ast.FunctionDef) or function.name.startswith("validate"):
                continue
            for node in ast.walk(function):
                match node:
                    case ast.Attribute(value=ast.Name(id="self"), attr=name, ctx=ast.Load()):
                        found.add(name)
                    case ast.Call(func=ast.Name(id="getattr"), args=[_, ast.Constant(value=str(name)), *_]):
                        found.add(name)
                    case ast.Call(
                        func=ast.Attribute(value=ast.Name(id="kwargs"), attr="get" | "pop" | "setdefault"),
                        args=[ast.Constant(value=str(name)), *_],
                    ):
                        found.add(name)
                    case ast.Subscript(value=ast.Name(id="kwargs"), slice=ast.Constant(value=str(name))):
                        found.add(name)
    return found


if __name__ == "__main__":
    main(sys.argv[1:])
