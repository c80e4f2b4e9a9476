"""HRM-Text: two stacks of gated attention at two speeds, norms without weights."""

from __future__ import annotations

from typing import Any

from gptcalc.sources.huggingface.fields import Fields
from gptcalc.sources.huggingface.llama import LLAMA
from gptcalc.sources.huggingface.reader import Hole, Reader, rmsnorm
from gptcalc.sources.huggingface.tensors import GATE_UP, Held, Names, Parts


def _each(fields: Fields) -> int:
    """Layers of a stack. What a class has written counts each layer as often as it runs, and this apart."""
    whole = fields.needed("num_hidden_layers")
    return fields.size("num_layers_per_stack") or whole


def _speeds(fields: Fields) -> dict[str, Any]:
    if fields.get("prefix_lm"):
        fields.notes.append(f"{fields.within}prefix_lm: every token is taken to see those before it alone")
    return {"fast": _each(fields), "cycles": fields.needed("H_cycles"), "fast_cycles": fields.needed("L_cycles")}


def _scale(fields: Fields) -> float | None:
    """1 / initializer_range where nothing else is said."""
    given, deviation = fields.number("embedding_scale"), fields.number("initializer_range")
    if given is None and deviation is not None and deviation <= 0:
        fields.wrong(("initializer_range",), "a positive number", deviation)
    return given if given is not None else 1 / (deviation or 0.02)


_HEADS: Parts = (("attn.gate", "n_heads"), ("attn.q", "n_heads"), ("attn.k", "n_kv_heads"), ("attn.v", "n_kv_heads"))


def _names() -> Names:
    """Of each stack, whose layers count from 0; as the class calls them, and as published files do."""
    found: dict[str, tuple[Held, ...]] = {}
    for stack, speed in (("L", "fast"), ("H", "slow")):
        at = f"model.{stack}_module.layers.{{run}}."
        both = Held(f"{at}attn.gqkv_proj", parts=_HEADS, speed=speed)
        for stem, name in (("q", "q_proj"), ("k", "k_proj"), ("v", "v_proj"), ("gate", "gate_proj")):
            found[f"attn.{stem}"] = (
                *found.get(f"attn.{stem}", ()),
                Held(f"{at}self_attn.{name}", speed=speed),
                both,
            )
        for name in ("self_attn.o_proj", "attn.o_proj"):
            found["attn.out"] = (*found.get("attn.out", ()), Held(at + name, speed=speed))
        for part in ("gate", "up"):
            own = Held(f"{at}mlp.{part}_proj", speed=speed)
            joint = Held(f"{at}mlp.gate_up_proj", parts=GATE_UP, speed=speed)
            found[f"mlp.{part}"] = (*found.get(f"mlp.{part}", ()), own, joint)
        found["mlp.down"] = (*found.get("mlp.down", ()), Held(f"{at}mlp.down_proj", speed=speed))
    return found


HRM = LLAMA.but(
    document={
        "n_layers": Hole(lambda fields: 2 * _each(fields)),
        "n_kv_heads": None,
        "norm": rmsnorm(weight=False),
        "final_norm": False,
        "bias": None,
        "speeds": Hole(_speeds),
        "embedding": {"scale": Hole(_scale)},
        "attn": {"gate": "full"},
    },
    defaults={"L_cycles": 3, "H_cycles": 2},
    only={"attention_bias": False, "mlp_bias": False},
    names={**_names(), "loop.start": Held("model.z_L_init", weight="")},
    irrelevant=("L_bp_cycles",),
    beyond=("initializer_range",),  # what the embedding's scale is made of
)

READERS: dict[str, Reader] = {"hrm_text": HRM}
