"""Lara Mini: gated delta nets, windows with rotation and layers over the whole past without, before experts."""

from __future__ import annotations

from collections.abc import Sequence

from gptcalc.sources.huggingface.fields import Fields
from gptcalc.sources.huggingface.llama import PREFIX
from gptcalc.sources.huggingface.pattern import FULL, RECURRENT, SLIDING, listed, stack
from gptcalc.sources.huggingface.qwen_next import QKV, QWEN3_5_MOE
from gptcalc.sources.huggingface.reader import Reader, rmsnorm, size
from gptcalc.sources.huggingface.tensors import Held, Parts, fused, in_layers


def periods(_: Fields, n: int) -> Sequence[str]:
    return [("gdn", "local", "gdn", "attn", "local")[i % 5] for i in range(n)]


_inputs: Parts = (*QKV, ("linear.gate", "v_width"), ("linear.beta", "n_heads"), ("linear.decay", "n_heads"))
_apart = {"q": "qkv", "k": "qkv", "v": "qkv", "gate": "z", "beta": "b", "decay": "a"}

LARA_MINI = QWEN3_5_MOE.but(
    document={
        "layers": stack(listed("layer_types", {FULL: "attn", SLIDING: "local", RECURRENT: "gdn"}, periods), "moe"),
        "norm": rmsnorm(),
        "d_ff": None,
        "attn": {"qk_norm": "head", "position": "none"},
        "local": {"like": "attn", "position": "rope", "window": size("sliding_window")},
        "mtp": None,
        "moe": {**QWEN3_5_MOE.document["moe"], "shared_gate": False},
    },
    defaults={"partial_rotary_factor": 1.0},
    only={"attn_output_gate": None, "full_attention_interval": None},
    irrelevant=("intermediate_size",),
    names=in_layers(
        PREFIX,
        {
            "attn.q": "self_attn.q_proj",
            "linear.out_norm": ("linear_attn.out_norm", "linear_attn.norm"),
            **{
                stem: (held, Held(f"linear_attn.in_proj_{_apart[stem[7:]]}", QKV if stem[7:] in "qkv" else ()))
                for stem, held in fused("linear_attn.in_proj", _inputs).items()
                if isinstance(held, Held)
            },
        },
    ),
)

READERS: dict[str, Reader] = {"lara_mini": LARA_MINI}
