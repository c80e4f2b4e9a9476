"""Voxtral Realtime's text model: a Mistral whose MLPs read what the audio's delay has a say in."""

from __future__ import annotations

from gptcalc.sources.huggingface.llama import PREFIX
from gptcalc.sources.huggingface.mistral import MISTRAL
from gptcalc.sources.huggingface.reader import Reader, number
from gptcalc.sources.huggingface.tensors import in_layers

DELAY = "default_num_delay_tokens"

#: channels of the bottleneck, which the class says itself
RANK = 32

READERS: dict[str, Reader] = {
    "voxtral_realtime_text": MISTRAL.but(
        document={
            "mlp": {"adaptive_norm": {"rank": RANK, "time": number(DELAY)}, "activation": MISTRAL.document["mlp"]}
        },
        defaults={DELAY: 6},
        beyond=(DELAY,),
        names=in_layers(
            PREFIX,
            {"mlp.norm.adaptive_a": "ada_rms_norm.linear1", "mlp.norm.adaptive_b": "ada_rms_norm.linear2"},
        ),
    )
}
