"""SmolLM 3: layers without positions."""

from __future__ import annotations

from collections.abc import Sequence

from gptcalc.errors import InputError
from gptcalc.sources.huggingface.fields import Fields
from gptcalc.sources.huggingface.llama import LLAMA
from gptcalc.sources.huggingface.pattern import FULL, SLIDING, listed, stack
from gptcalc.sources.huggingface.reader import Reader, size


def without_rope(fields: Fields, n: int) -> Sequence[str]:
    """A list of zeros where a layer has no rotary positions; a window, where layer_types doesn't say, is theirs."""
    flags = fields.items("no_rope_layers")
    step = fields.needed("no_rope_layer_interval")
    rotates = flags if flags is not None else [(i + 1) % step for i in range(n)]
    if len(rotates) != n:
        raise InputError(f"{fields.within}no_rope_layers has {len(rotates)} entries, the model {n} layers")
    local = fields.size("sliding_window") is not None  # in which layers masks have it, listed or not
    on = fields.flag("use_sliding_window")
    usual = ["" if turns or not on else "local" for turns in rotates]
    windowed = listed("layer_types", {FULL: "", SLIDING: "local"}, lambda _fields, _n: usual)
    names = {(True, False): "attn", (True, True): "local", (False, False): "nope", (False, True): "nope_local"}
    return [names[bool(turn), local and bool(kind)] for turn, kind in zip(rotates, windowed(fields, n), strict=True)]


SMOLLM3 = LLAMA.but(
    document={
        "layers": stack(without_rope, "mlp"),
        "nope": {"like": "attn", "position": "none"},
        "local": {"like": "attn", "window": size("sliding_window")},
        "nope_local": {"like": "nope", "window": size("sliding_window")},
    },
)

READERS: dict[str, Reader] = {
    "smollm3": SMOLLM3,
}
