"""Types that are known and not read, and why."""

from __future__ import annotations

_OTHERS = """
big_bird bigbird_pegasus blenderbot-small canine clip convbert
encoder-decoder esm flaubert fnet fsmt funnel ibert led longformer longt5 luke mobilebert mra
nezha nllb-moe nystromformer pegasus_x perceiver prophetnet reformer rembert roc_bert
siglip splinter squeezebert t5gemma2 vision-encoder-decoder vit xlm xmod yoso
"""

_OWN_ATTENTION = "text models that read images by cross-attention of their own are not supported yet"

#: model_type -> why its configs are not read
UNSUPPORTED: dict[str, str] = {
    **dict.fromkeys(_OTHERS.split(), "this encoder or encoder-decoder is not read yet"),
    "blip": "a text decoder with cross-attention to an image encoder is not read yet",
    "blt": "byte patches between smaller transformers are not supported yet",
    "chameleon": "queries and keys normed with weights of every head are not supported yet",
    "cpmant": "prompts in front of every text and positions by segment are not supported yet",
    "diffusion_gemma": "a decoder of whole blocks that reads its own encoder's keys and values is not supported yet",
    "ernie4_5_vl_moe": "two mixtures of experts side by side, one for text and one for images, are not supported yet",
    "evolla": _OWN_ATTENTION,
    "gemma4_assistant": "a draft that reads another model's keys and values is not a model by itself",
    "gemma4_unified_assistant": "a draft that reads another model's keys and values is not a model by itself",
    "git": "a text decoder that reads its image as a prefix of tokens is not read yet",
    "glm5_next": "its hybrid of linear and latent attention is not read yet",
    "glm5_next_text": "its hybrid of linear and latent attention is not read yet",
    "gsa": "memory in slots that a softmax reads is not supported yet",
    "hgrn": "decays with a learned lower bound for each layer are not supported yet",
    "hgrn2": "decays with a learned lower bound for each layer are not supported yet",
    "hymba": "attention and Mamba heads side by side behind learned tokens are not supported yet",
    "idefics": _OWN_ATTENTION,
    "jet_nemotron": "linear attention with convolutions that each token makes is not supported yet",
    "kosmos-2": "a text model with norms inside its sublayers is not read yet",
    "kosmos-2.5": "a text model with sinusoidal positions beside an image encoder is not read yet",
    "kyutai_speech_to_text": "parallel streams of audio codes are not supported yet",
    "moshi": "a decoder beside a depth decoder over audio codes is not supported yet",
    "musicgen": "parallel streams of audio codes are not supported yet",
    "musicgen_melody": "parallel streams of audio codes are not supported yet",
    "pi0": "a second model that writes actions beside the text model is not supported yet",
    "pix2struct": "this encoder or encoder-decoder is not read yet",
    "plamo2": "Mamba whose heads make their steps of what was convolved is not supported yet",
    "pp_formulanet": "this encoder or encoder-decoder is not read yet",
    "roformer": "a table of fixed sines that turn queries, kept as a parameter, is not supported yet",
    "trocr": "a decoder that reads an image encoder's output is not read yet",
    "udop": "this encoder or encoder-decoder is not read yet",
    "unlimited_ocr": "windows over what was generated beside a prompt that is seen whole are not supported yet",
    "voxtral_realtime": "a factor of the MLP's input that a time embedding gives is not supported yet",
    "xlnet": "attention of two streams is not supported yet",
    "yuan": "convolutions in front of queries and keys (localized filtering) are not supported yet",
}
