"""The formats of single matrices, where a config gives some of them another than most: by modules' names.

compressed-tensors has groups with targets and a list of what it ignores, by exact names or patterns; ModelOpt excludes
by wildcards, or lists each layer's algorithm; transformers skips names that contain a word; GPTQModel and AutoRound
have exceptions by pattern or name; MLX writes a matrix' own width under its name.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Literal

from msgspec import Struct

from gptcalc.architecture import Apart, Experts, by_prefix
from gptcalc.errors import InputError
from gptcalc.patterns import Endless, compiled
from gptcalc.sources.huggingface.tensors import MATRICES, TensorNames

How = Literal["exact", "within", "glob", "regex"]
#: of numbers that aren't packed, as AutoRound has them
WIDE_BITS = (16, 32)
#: words in front of names that classes and those around them add
OUTER = frozenset({"model", "language_model", "text_model", "transformer", "backbone", "thinker", "llm"})
#: what stands before a name in classes with other models around
PREFIXES = ("", "model.", "language_model.model.", "model.language_model.")
#: what is no matrix of the text model's layers: towers, norms, multi-token-prediction modules
ELSEWHERE = (
    r"\b(?:lm_head|embed_tokens|mtp|visual|vision\w*|audio\w*|vit|projector|multi_modal\w*|merger|siglip\w*)\b"
    r"|norm\d?$|conv1d$|linear_attn$"
)


class Rule(Struct, frozen=True):
    """Modules, and the format of those; the first rule that holds decides.

    exact: the one of this name. within: those with these words in their names. glob: those of these names, * being any
    letters, and what is in them. regex: a pattern, from a name's beginning on.
    """

    how: How
    word: str
    form: str


def apart(rules: Sequence[Rule], names: TensorNames) -> tuple[Apart, bool]:
    """Of the matrices that a rule holds for, the format; and whether that is all that the rules say: each has found a
    matrix, and experts are all alike."""
    exact = {bare(rule.word): rule.form for rule in reversed(rules) if rule.how == "exact"}
    others = [(_test(rule), rule) for rule in rules if rule.how != "exact"]
    found: dict[str, str] = {}
    met = set()
    for key, module in _modules(names):
        name = bare(module)
        own = name if name in exact or not name.rpartition(".")[0].endswith(".experts") else name.rpartition(".")[0]
        if own in exact:
            met.add(own)
            found[key] = exact[own]
            continue
        rule = next((rule for test, rule in others if test(name)), None)
        if rule is not None:
            met |= {other.word for test, other in others if test(name)}
            found[key] = rule.form
    words = (*exact, *(rule.word for _, rule in others if rule.word))
    is_whole = all(word in met or _is_elsewhere(word, names.architecture.n_layers) for word in words)
    return Apart(found), is_whole and _are_alike(rules, names)


def _is_elsewhere(word: str, n_layers: int) -> bool:
    """Whether a name is of no matrix of the layers: modules for multi-token prediction stand behind the last."""
    layer = re.search(r"\blayers\.(\d+)", word)
    return re.search(ELSEWHERE, word) is not None or (layer is not None and int(layer[1]) >= n_layers)


def _are_alike(rules: Sequence[Rule], names: TensorNames) -> bool:
    """Whether experts that are named by number are all named."""
    numbers: dict[tuple[str, str], set[str]] = {}
    for rule in rules:
        for number in re.findall(r"\.experts\.(\d+)\.", rule.word):
            numbers.setdefault((bare(rule.word), rule.form), set()).add(number)
    if not numbers:
        return True
    n = max((mixer.n_experts for mixer in names.architecture.mixers() if isinstance(mixer, Experts)), default=0)
    return all(len(own) == n for own in numbers.values())


def bare(name: str) -> str:
    """A module's name without what is in front of the text model's, experts all alike."""
    words = name.split(".")
    while len(words) > 1 and words[0] in OUTER:
        del words[0]
    name = ".".join(words).replace(".switch_mlp.", ".experts.")  # MLX's name of all experts
    return re.sub(r"\.experts\.(?:\d+|\{e\})\.", ".experts.", name)


def _test(rule: Rule) -> Any:
    match rule.how:
        case "within":
            word = f".{bare(rule.word.strip('.'))}."
            return lambda name: word in f".{name}."
        case "glob":
            pattern = re.escape(bare(rule.word)).replace(r"\*", ".*")
            return re.compile(rf"{pattern}(?:\..*)?\Z").match
    try:
        expression = compiled(rule.word, "quantization_config")
    except Endless:
        return lambda _: False  # it meets nothing, so what the config says is not all understood
    # experts are alike, and the first stands for all
    return lambda name: any(
        expression.match(prefix + name.replace(".experts.", ".experts.0.")) or expression.match(prefix + name)
        for prefix in PREFIXES
    )


def _modules(names: TensorNames) -> Iterator[tuple[str, str]]:
    """The keys of matrices, and the modules that have them."""
    stems: dict[str, list[str]] = {}
    for stem in names.names:
        if stem.rpartition(".")[2] in MATRICES or stem == "embedding.token":
            stems.setdefault(stem.partition(".")[0] if "." in stem else "", []).append(stem)
    outer = [*stems.get("", []), "embedding.token"]
    keys = [(key, key) for key in outer]
    for number, block in enumerate(names.architecture.blocks()):
        for prefix in by_prefix(block):
            keys += [(f"layers.{number}.{stem}", stem) for stem in stems.get(prefix, [])]
    for key, stem in keys:
        try:
            places = names.places(key)
        except InputError:
            continue
        for place in places[:1]:
            yield f"{key}.weight" if stem == "head" else key, place.name.removesuffix(".weight")


# --- what configs say -------------------------------------------------------------------------------------------------


def rules(config: Mapping[str, Any], left: Sequence[str], kinds: Any) -> list[Rule]:
    """The rules of a config that says how weights are packed; `kinds` reads the format of a part of it."""
    method = str(config.get("quant_method") or "").lower()
    found: list[Rule] = []
    if method == "compressed-tensors":
        found += [_matching(word, "bf16") for word in _words(config.get("ignore"))]
        found += _targets(config, kinds)
        return found
    each = config.get("quantized_layers")
    if isinstance(each, Mapping):
        found += [Rule("exact", str(module), form) for module, how in each.items() if (form := kinds(how)) is not None]
        return [*found, Rule("regex", "", "bf16")]
    if isinstance(config.get("exclude_modules"), list) or method.startswith("modelopt"):
        words = _words(config.get("exclude_modules") or config.get("ignore"))
        return [*(Rule("glob", word, "bf16") for word in words), *_targets(config, kinds)]
    for key in ("dynamic", "extra_config"):
        given = config.get(key)
        for word, how in given.items() if isinstance(given, Mapping) else ():
            skipped = str(word).startswith("-:") or (isinstance(how, Mapping) and how.get("bits") in WIDE_BITS)
            form = "bf16" if skipped else kinds({**config, **how} if isinstance(how, Mapping) else None)
            if form is not None:
                pattern = str(word).removeprefix("-:").removeprefix("+:")
                by_name = key == "extra_config" and re.fullmatch(r"[\w.]+", pattern)
                found.append(Rule("exact" if by_name else "regex", pattern, form))
    if method:
        return [*found, *(Rule("within", word, "bf16") for word in left)]
    for module, how in config.items():  # MLX's
        if how is False:
            found.append(Rule("exact", module, "bf16"))
        elif isinstance(how, Mapping) and (form := kinds(how)) is not None:
            found.append(Rule("exact", module, form))
    return found


def is_class(word: str) -> bool:
    """Whether a group's target is a class of modules, such as Linear, and not a module's name or a pattern."""
    return word[:1].isupper()


def _words(given: Any) -> list[str]:
    return [word for word in given if isinstance(word, str)] if isinstance(given, list) else []


def _matching(word: str, form: str) -> Rule:
    return Rule("regex", word.removeprefix("re:"), form) if word.startswith("re:") else Rule("exact", word, form)


def _targets(config: Mapping[str, Any], kinds: Any) -> list[Rule]:
    """Of groups: what names mean goes before patterns, and these before classes; what no group means stays wide."""
    groups = config.get("config_groups")
    found: list[Rule] = []
    whole = False
    for group in groups.values() if isinstance(groups, Mapping) else ():
        form = kinds(group)
        for word in _words(group.get("targets")) if isinstance(group, Mapping) and form is not None else ():
            if is_class(word):
                whole = True  # what the config's own format means
            else:
                found.append(_matching(word, form))
    return found if whole or not found else [*found, Rule("regex", "", "bf16")]
