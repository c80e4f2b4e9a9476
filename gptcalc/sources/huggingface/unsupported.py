"""Types that are known and not read, and why."""

from __future__ import annotations

_RECURRENT = """
glm5_next_text hymba jet_nemotron plamo2 qwen4_exp rwkv rwkv5 rwkv6 rwkv7 zamba zamba2
"""

_OTHERS = """
bert-generation big_bird bigbird_pegasus blenderbot blenderbot-small canine clip convbert data2vec-text deberta
encoder-decoder ernie esm flaubert fnet fsmt funnel ibert led longformer longt5 luke megatron-bert mobilebert mra mvp
nezha nllb-moe nystromformer pegasus_x perceiver plbart prophetnet reformer rembert roberta-prelayernorm roc_bert
roformer siglip splinter squeezebert t5gemma2 vision-encoder-decoder vit xlm xlm-roberta-xl xmod yoso
"""

#: model_type -> why its configs are not read
UNSUPPORTED: dict[str, str] = {
    **dict.fromkeys(_RECURRENT.split(), "recurrent mixers are not supported yet"),
    **dict.fromkeys(_OTHERS.split(), "this encoder or encoder-decoder is not read yet"),
    "inkling2_loop_text": "looped layers are not supported yet",
    "mllama_text_model": "cross-attention layers are not supported yet",
    "zaya": "compressed convolutional attention is not supported yet",
}
