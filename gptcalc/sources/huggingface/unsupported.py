"""Types that are known and not read, and why."""

from __future__ import annotations

_RECURRENT = """
glm5_next_text hymba jet_nemotron plamo2 qwen4_exp rwkv rwkv5 rwkv6 rwkv7 zamba zamba2
"""

_NOT_DECODERS = """
albert bart bert bert-generation big_bird bigbird_pegasus blenderbot blenderbot-small camembert canine clip convbert
data2vec-text deberta deberta-v2 distilbert electra encoder-decoder ernie esm eurobert flaubert fnet fsmt funnel gte
ibert led longformer longt5 luke m2m_100 marian mbart megatron-bert mobilebert modernbert mpnet mra mt5 mvp nezha
nllb-moe nomic_bert nystromformer pegasus pegasus_x perceiver plbart prophetnet reformer rembert roberta
roberta-prelayernorm roc_bert roformer siglip splinter squeezebert switch_transformers t5 t5gemma t5gemma2 umt5
vision-encoder-decoder vit whisper xlm xlm-roberta xlm-roberta-xl xmod yoso
"""

#: model_type -> why its configs are not read
UNSUPPORTED: dict[str, str] = {
    **dict.fromkeys(_RECURRENT.split(), "recurrent mixers are not supported yet"),
    **dict.fromkeys(_NOT_DECODERS.split(), "not a decoder-only model"),
    "axk2": "norms gated by a bottleneck are not supported yet",
    "diffllama": "differential attention is not supported yet",
    "doge": "dynamic masks are not supported yet",
    "hy_v4": "hyper-connections are not supported yet",
    "inkling2_loop_text": "looped layers are not supported yet",
    "mllama_text_model": "cross-attention layers are not supported yet",
    "zaya": "compressed convolutional attention is not supported yet",
}
