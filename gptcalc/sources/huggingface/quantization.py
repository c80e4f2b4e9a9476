"""In which form a config says that its weights are published: `quantization_config`, else `dtype`."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Literal

from msgspec import Struct
from msgspec.structs import replace

from gptcalc.architecture import (
    Architecture,
    Attention,
    Block,
    CompressedAttention,
    EmbeddingConvolution,
    Engram,
    Experts,
    LatentAttention,
    Mlp,
)
from gptcalc.dtypes import AFFINE, CHANNEL, FORMATS, GPTQ, MLX_GROUPS
from gptcalc.sources.huggingface.matrices import Rule, apart, is_class, rules

#: dtype as torch writes it -> ours; bf16 is the default
PLAIN = {"float32": "fp32", "float16": "fp16", "bfloat16": None}
WIDE_TYPES = (None, "fp16", "fp32")
#: formats as models' names have them
IN_NAMES = frozenset({
    "nvfp4", "mxfp4", "fp4", "fp8", "w4a8", "w4a16", "w8a8", "w8a16", "awq", "gptq", "int4", "int8",
})  # fmt: skip
#: ModelOpt's names of algorithms
MODELOPT = {"FP8": "fp8", "NVFP4": "nvfp4", "W4A16_NVFP4": "nvfp4", "FP8_PB_WO": "fp8-block"}
#: what every format of ours leaves wide
WIDE = r"head|embed|norm|router|gate$|gate\b(?!_)|bias|visual|vision|audio|multi_modal|projector"


#: where configs list what is left wide, and exceptions by pattern or name
LEFT = ("modules_to_not_convert", "ignore", "exclude_modules", "llm_int8_skip_modules")
EXCEPTIONS = ("dynamic", "extra_config")
#: ChatGLM's own: a 16-bit scale an output channel
CHATGLM = {4: f"int4:{CHANNEL}:sym", 8: "int8"}
#: what else is left wide where nothing but the experts is packed
BUT_EXPERTS = ("self_attn", "shared_experts", "mlp")


#: a module of a layer, or all of it; of layers by number, all of them by a star
OF_LAYER = r"(?:.*\.)?layers\.(?P<layer>\d+|\*)(?:\*|\.\*?(?P<part>.*?)\.?\*?)"
#: all of a multi-token-prediction module, or of all of them, where they are not numbered behind the layers
OF_MTP = r"(?:re:\^?)?(?:[\w.*]*[.*])?mtp(?:\\?\.layers)?(?:\\?\.(?P<module>\d+))?[\\.*]*"
#: one of all layers
OF_ALL = r"re:\.\*(?P<part>[a-z_]+)\.\*"


class Layers(Struct, frozen=True):
    """What each layer has of what quantisers pack or leave wide; whether recurrent mixers are called self_attn, too;
    how many of them are multi-token-prediction modules, which stand behind the others."""

    own: list[frozenset[str]]
    alike: bool
    modules: int = 0

    @property
    def n(self) -> int:
        """How many are no modules."""
        return len(self.own) - self.modules


class Stored(Struct, frozen=True):
    """A format's name, None where none of ours is meant; whether matrices stay wide that it would pack; whether the
    config says any form at all."""

    weights: str | None
    mixed: bool = False
    note: str | None = None
    said: bool = True
    mixed_mtp: bool = False  # the same as mixed of multi-token-prediction modules
    several: bool = False  # whether some matrices have another format than most
    left: tuple[str, ...] = ()  # what stays wide that it would pack
    fp8_cache: tuple[Literal["vllm", "sglang"], ...] = ()  # engines that keep the cache so
    nvfp4_cache: tuple[Literal["vllm"], ...] = ()
    by_layer: bool = False  # the cache: said to each layer of vLLM's Attention, which latent ones are not
    modules: tuple[tuple[str, str], ...] = ()  # modules and their formats, where each has one of its own

    def among(self, architecture: Architecture) -> Stored:
        """The same for this model: components that stay wide in all layers are named, and are not mixed."""
        if self.by_layer and not any(isinstance(mixer, Attention) for mixer in architecture.mixers()):
            return replace(self, fp8_cache=(), by_layer=False).among(architecture)
        if self.weights is None or not (self.left or self.modules):
            return self
        mtp = architecture.mtp
        modules = [] if mtp is None else [_components(mtp.block) | {"mtp"}] * mtp.n
        alike = architecture.storage.gguf in ("kimi-linear", "minimax-01")
        layers = Layers([*map(_components, architecture.blocks()), *modules], alike, len(modules))
        if self.modules:
            unnamed = mtp is not None and not any("mtp" in module for module, _ in self.modules)
            name = _most(self.modules, layers) + ",mtp=bf16" * unnamed
            return replace(self, weights=name, mixed_mtp=mtp is not None and not unnamed)
        wide = [set[str]() for _ in layers.own]
        unclear = {number for word in self.left for number, is_clear in _marked(word, layers, wide) if not is_clear}
        main = list(zip(layers.own, wide, strict=True))[: layers.n]
        apart = set[str]().union(*wide[: layers.n]) - {part for own, left in main for part in own - left}
        behind = list(zip(layers.own, wide, strict=True))[layers.n :]
        whole = bool(behind) and all(own == left for own, left in behind)
        name = ",".join([self.weights, *(f"{part}=bf16" for part in (*sorted(apart), *(["mtp"] if whole else [])))])
        return replace(
            self,
            weights=name,
            mixed=self.several or any(number < layers.n for number in unclear) or any(left - apart for _, left in main),
            mixed_mtp=not whole and (any(n >= layers.n for n in unclear) or any(o & apart != w for o, w in behind)),
        )


def _components(block: Block) -> frozenset[str]:
    """What a layer has, by the components of the equations."""
    found = set[str]()
    for unit in (unit for part in block.parts for unit in part.units):
        match unit:
            case Block():
                found |= _components(unit)
            case Attention() | LatentAttention() | CompressedAttention():
                found.add("attention")
            case Mlp():
                found.add("mlp")
            case Experts():
                found |= {"experts"} if unit.shared is None else {"experts", "shared_experts"}
            case EmbeddingConvolution() | Engram():
                pass
            case _:
                found.add("recurrent")
    return frozenset(found)


def _marked(word: str, layers: Layers, wide: Sequence[set[str]]) -> Iterator[tuple[int, bool]]:
    """Marks what a word of a config leaves wide in layers; of each, whether it is clear what the word means there."""
    every = range(len(layers.own))
    if "mtp" in word:
        found = re.fullmatch(OF_MTP, word)
        numbers, part = every[layers.n :], None
        if found is not None and found["module"] is not None:
            numbers = numbers[int(found["module"]) :][:1]
    else:
        found = re.fullmatch(OF_ALL, word) or re.fullmatch(OF_LAYER, word)
        layer = "*" if found is None else found.groupdict().get("layer") or "*"
        numbers, part = every if layer == "*" else every[int(layer) :][:1], found and found["part"]
    for number in numbers:
        parts = None if found is None else _parts(part, layers.own[number], layers.alike)
        wide[number] |= parts or set()
        yield number, parts is not None


def _parts(module: str | None, own: frozenset[str], alike: bool) -> frozenset[str] | None:
    """The components of a layer that are in a module of it; None where that is unknown. alike: as in Layers."""
    match module:
        case None | "":
            return own
        case "self_attn":
            return own & ({"attention", "recurrent"} if alike else {"attention"})
        case "linear_attn" | "mamba":
            return own & {"recurrent"}
        case "mlp":
            return own & {"mlp"} or own & {"experts", "shared_experts"}
        case "mlp.shared_expert" | "mlp.shared_experts" | "shared_expert" | "shared_experts":
            return own & {"shared_experts"}
        case "mlp.experts" | "experts":
            return own & {"experts"}
    return None


def _most(modules: Sequence[tuple[str, str]], layers: Layers) -> str:
    """The format that most modules of a component have; of those with none it is bf16."""
    seen: dict[str, Counter[str]] = {}
    for module, name in modules:
        found = re.fullmatch(OF_LAYER, module)
        if found is None or not found["layer"].isdecimal() or int(found["layer"]) >= layers.n:
            continue
        words = found["part"].split(".")
        inner = words[0] == "mlp" and len(words) > 1 and "expert" in words[1]
        for part in _parts(".".join(words[: 2 if inner else 1]), layers.own[int(found["layer"])], layers.alike) or ():
            seen.setdefault(part, Counter())[name] += 1
    return ",".join(["bf16", *(f"{part}={seen[part].most_common(1)[0][0]}" for part in sorted(seen))])


def stored(config: Mapping[str, Any]) -> Stored:
    """How the weights of a config are stored."""
    places = _places(config)
    for place, said in _said(places):
        found = _with_cache(_quantized(said), said)
        return replace(found, weights="fp8-mxfp4") if _has_experts_of_four_bits(found, place) else found
    if (bits := config.get("quantization_bit")) in CHATGLM:
        return Stored(CHATGLM[bits])
    for place in places:
        for key in ("dtype", "torch_dtype"):
            if isinstance(word := place.get(key), str) and word.removeprefix("torch.") in PLAIN:
                return Stored(PLAIN[word.removeprefix("torch.")])
    return Stored(None, said=False)


def is_quantized(config: Mapping[str, Any]) -> bool:
    """Whether a config says itself how its weights are packed."""
    return any(True for _ in _said(_places(config)))


def _places(config: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    inner = config.get("text_config")
    return [config, inner] if isinstance(inner, dict) else [config]


def _said(places: Sequence[Mapping[str, Any]]) -> Iterator[tuple[Mapping[str, Any], Mapping[str, Any]]]:
    """What is said of packing, and where."""
    for place in places:
        for key in ("quantization_config", "quantization", "compression_config"):
            if isinstance(place.get(key), dict) and place[key]:
                yield place, place[key]


def _with_cache(found: Stored, config: Mapping[str, Any]) -> Stored:
    """With what vLLM and SGLang make of a cache whose type a config names; of others nothing is known.

    ModelOpt's: vLLM's resolve_kv_cache_dtype_string, which knows fp8 and nvfp4, SGLang's configure_kv_cache_dtype.
    compressed-tensors': vLLM's Attention takes any scheme that its validate_kv_cache_scheme lets pass as fp8; SGLang
    takes none by itself.
    """
    inner = config.get("quantization", config)
    method = str(config.get("quant_method", "modelopt" if "quantization" in config else ""))
    scheme = config.get("kv_cache_scheme")
    if method == "compressed-tensors" and isinstance(scheme, dict):
        passes = scheme.get("type") == "float" or scheme.get("num_bits") == 8
        return replace(found, fp8_cache=("vllm",), by_layer=True) if passes else found
    if not isinstance(inner, dict) or not method.startswith("modelopt"):
        return found
    asked = inner.get("kv_cache_scheme") or inner.get("kv_cache_quant_algo")
    if isinstance(asked, dict):
        known = {"dynamic": False, "num_bits": 8, "type": "float"}
        is_fp8 = {key: asked.get(key) for key in known} == known
        is_nvfp4 = (asked.get("num_bits"), asked.get("type")) == (4, "float")
    else:
        is_fp8, is_nvfp4 = str(asked).lower() == "fp8", str(asked).lower() == "nvfp4"
    if is_nvfp4:
        return replace(found, nvfp4_cache=("vllm",))
    return replace(found, fp8_cache=("vllm", "sglang")) if is_fp8 else found


def by_name(found: Stored, name: str) -> Stored:
    """The same where a model's name has a format and its config none: ModelOpt's older ones say it in a file beside."""
    words = "".join(letter if letter.isascii() and letter.isalnum() else " " for letter in name.lower()).split()
    word = next((word for word in words if word in IN_NAMES), None)
    if word is None or found.weights not in WIDE_TYPES or found.note is not None:
        return found
    wide = found.weights or "bf16"
    said = f"the name says {word}, the config doesn't; weights are taken as {wide} (--dtype)"
    return replace(found, mixed=True, note=said)


def _has_experts_of_four_bits(found: Stored, config: Mapping[str, Any]) -> bool:
    """Whether a config in fp8 blocks says that its experts are in mxfp4 (DeepSeek-V4's expert_dtype)."""
    return found.weights == "fp8-block" and config.get("expert_dtype") == "fp4"


def _quantized(config: Mapping[str, Any]) -> Stored:
    inner = config.get("quantization")
    if isinstance(inner, dict) and "quant_method" not in config:  # as ModelOpt's own file has it
        config = inner
    method = str(config.get("quant_method") or config.get("quant_algo") or config.get("mode") or "").lower()
    name = _mode(config) or _format(method, config)
    each = config.get("quantized_layers")
    if name is None and isinstance(each, dict):
        algorithms = ((module, how.get("quant_algo")) for module, how in each.items() if isinstance(how, dict))
        own = tuple((str(module), MODELOPT[name]) for module, name in algorithms if name in MODELOPT)
        if own:
            return Stored("bf16", True, modules=own)
    if name is None:
        known = f"quantization_config: {method or 'without quant_method'} is no format that is known here"
        return Stored(None, True, f"{known}; weights are taken as bf16 (--dtype)")
    left = next((config[key] for key in LEFT if config.get(key)), ())
    words = [word.lower() for word in left if isinstance(word, str)] if isinstance(left, list) else []
    if name.startswith("mlx"):  # what one matrix has otherwise stands under its name
        return Stored(name, any(isinstance(value, dict) or value is False for value in config.values()))
    packed = () if name == "mxfp4" else tuple(word for word in words if not re.search(WIDE, word))
    modules = tuple(word for word in packed if "mtp" in word)
    if name.startswith("w") and all(any(part in word for word in words) for part in BUT_EXPERTS):
        return Stored(f"{name}:experts", left=modules)
    several = isinstance(config.get("config_groups"), dict) and not _is_uniform(config)
    several = several or any(config.get(key) for key in EXCEPTIONS)
    return Stored(name, len(packed) > len(modules) or several, left=packed, several=several)


def exceptions(config: Mapping[str, Any], found: Stored) -> list[Rule]:
    """What a config says of single matrices that are packed otherwise than most."""
    for _, said in _said(_places(config)):
        inner = said.get("quantization")
        own = inner if isinstance(inner, dict) and "quant_method" not in said else said

        def form(part: Any, own: Mapping[str, Any] = own) -> str | None:
            if not isinstance(part, Mapping):
                return None
            if isinstance(part.get("weights"), dict):
                return _kind(part, _is_packed(own, part))
            if "quant_algo" in part:
                return MODELOPT.get(str(part["quant_algo"]).upper())
            return _mode(part) or _format(str(part.get("quant_method") or part.get("mode") or "").lower(), part)

        return rules(own, found.left, form)
    return []


def with_exceptions(model: Architecture, config: Mapping[str, Any], found: Stored, model_type: str) -> Architecture:
    """With the format of each matrix that a config names, where each of these names is one of the model's matrices."""
    from gptcalc.sources.huggingface import tensor_names

    own = exceptions(config, found)
    named, is_whole = apart(own, tensor_names(model_type, model))
    if not own or not is_whole:
        return model
    weights = model.storage.weights if found.modules else found.weights
    return replace(model, storage=replace(model.storage, weights=weights, mixed=False, apart=named))


def _mode(config: Mapping[str, Any]) -> str | None:
    """MLX's formats of floating point."""
    name = f"mlx-{config.get('mode')}"
    return name if name in FORMATS and "quant_method" not in config else None


def _format(method: str, config: Mapping[str, Any]) -> str | None:
    match method:
        case "mxfp4":
            return "mxfp4"
        case "fp8" | "fbgemm_fp8" if "quant_algo" not in config:
            return "fp8-block" if config.get("weight_block_size") else "fp8"
        case "gptq" | "awq" | "auto-round" | "gptq_marlin" | "awq_marlin" | "intel/auto-round":
            return _grouped("awq" if method.startswith("awq") else "gptq", config)
        case "bitsandbytes":
            return _bitsandbytes(config)
        case "eetq":  # a byte a number, a 16-bit scale an output channel
            return "int8"
        case "exl2" | "exl3":
            bits = config.get("bits")
            return f"{method}:{bits}" if isinstance(bits, (int, float)) and 1 <= bits <= 8 else None
        case "torchao":
            return _torchao(config)
        case "" | "affine":
            return _affine(config) or _bitsandbytes(config)
        case "compressed-tensors":
            return _groups(config)
        case "modelopt" | "modelopt_fp4" | "nvfp4" | "fp8" | "fp8_pb_wo":
            algorithm = str(config.get("quant_algo") or "").upper()
            each = config.get("quantized_layers")
            return MODELOPT.get(algorithm) or (None if isinstance(each, dict) and each else _groups(config))
    return None


def _grouped(name: str, config: Mapping[str, Any]) -> str | None:
    bits, group = config.get("bits", config.get("w_bit")), config.get("group_size", config.get("q_group_size", 128))
    if not isinstance(group, int) or group < -1 or group == 0 or (bits != 4 and f"{name}{bits}" not in GPTQ):
        return None
    name = name if bits == 4 else f"{name}{bits}"
    symmetric = config.get("sym") is True if name.startswith("gptq") else config.get("zero_point") is False
    # AutoGPTQ stores zero points of symmetric weights as well
    return f"{name}:{group if group > 0 else CHANNEL}" + (":sym" if symmetric and name == "awq" else "")


def _bitsandbytes(config: Mapping[str, Any]) -> str | None:
    if config.get("load_in_8bit") is True:
        return "int8"
    if config.get("load_in_4bit") is True:
        return "nf4-double" if config.get("bnb_4bit_use_double_quant") is True else "nf4"
    return None


def _affine(config: Mapping[str, Any]) -> str | None:
    """MLX's, which says nothing but the width and the group."""
    bits, group = config.get("bits"), config.get("group_size")
    return f"mlx{bits}:{group}" if bits in AFFINE and group in MLX_GROUPS else None


def _torchao(config: Mapping[str, Any]) -> str | None:
    """The one kind of all linear layers, by the name of its class or, in older configs, of its function."""
    kind: Any = config.get("quant_type")
    more: Any = config.get("quant_type_kwargs")
    if isinstance(kind, dict):
        only = kind.get("default", kind) if len(kind) == 1 or "_type" in kind else None
        kind, more = (only.get("_type"), only.get("_data")) if isinstance(only, dict) else (None, None)
    word = str(kind).lower().replace("_", "").removesuffix("config")
    group = more.get("group_size", 128) if isinstance(more, dict) else 128
    if word == "int4weightonly":
        return "torchao-int4" if group == 128 else None
    return {"int8weightonly": "torchao-int8", "float8dynamicactivationfloat8weight": "torchao-fp8"}.get(word)


def _groups(config: Mapping[str, Any]) -> str | None:
    """The kind of weights that config_groups have; of several that of a class of modules, such as Linear."""
    kinds = _kinds(config)
    found = {kind for _, kind in kinds}
    if None not in found and len(found) > 1:
        found = {kind for targets, kind in kinds if any(is_class(word) for word in targets)} or {kinds[0][1]}
    return found.pop() if len(found) == 1 else None


def _kinds(config: Mapping[str, Any]) -> list[tuple[tuple[str, ...], str | None]]:
    """Of each of config_groups the targets, and the kind of their weights."""
    groups = config.get("config_groups")
    each = list(groups.values()) if isinstance(groups, dict) else []
    targets = [group.get("targets") if isinstance(group, dict) else None for group in each]
    words = [tuple(map(str, own)) if isinstance(own, list) and own else ("Linear",) for own in targets]
    return [(own, _kind(group, _is_packed(config, group))) for own, group in zip(words, each, strict=True)] or [
        ((), None)
    ]


def _is_packed(config: Mapping[str, Any], group: Any) -> bool:
    return "pack-quantized" in (config.get("format"), group.get("format") if isinstance(group, dict) else None)


def _is_uniform(config: Mapping[str, Any]) -> bool:
    """Whether all modules of a class are packed alike."""
    return all(is_class(word) for targets, _ in _kinds(config) for word in targets)


def _kind(group: Any, packed: bool) -> str | None:
    weights = group.get("weights") if isinstance(group, dict) else None
    if not isinstance(weights, dict):
        return None
    bits, kind, size = weights.get("num_bits"), weights.get("type"), weights.get("group_size")
    if kind == "float":
        return _floats(bits, size, weights)
    if kind != "int" or bits not in (4, 8):
        return None
    grouped = isinstance(size, int) and size > 0
    if not packed:  # a byte each, of 4 bits as well
        return f"int8:{size}" if grouped else "int8"
    options = [] if weights.get("symmetric", True) else ["asym"]
    if weights.get("actorder") == "group":
        options.append("order")
    if not grouped and bits == 8 and not options:
        return "w8a16"
    return ":".join([f"w{bits}a16", str(size) if grouped else CHANNEL, *options])


def _floats(bits: Any, size: Any, weights: Mapping[str, Any]) -> str | None:
    if bits == 4:
        return {16: "nvfp4", 32: "mxfp4"}.get(size) if isinstance(size, int) else None
    if bits != 8:
        return None
    if weights.get("block_structure"):
        return "fp8-block"
    return "fp8-channel" if weights.get("strategy") == "channel" else "fp8"
