"""Types that are known and not read, and why."""

from __future__ import annotations

_APPROXIMATED = "attention that is approximated by fewer products is not supported yet"
_OF_BLOCKS = "attention to blocks of tokens, some drawn at random, is not supported yet"
_GLOBAL = "windows beside tokens that all others see are not supported yet"
_IMAGES = "a model of images, or of images and texts side by side, is not read"
_PLACES = "tables of places in two dimensions are not supported yet"
_PATCHES = "an encoder that reads patches of images is not supported yet"
_SPEECH = "encoders of speech and of text beside one decoder are not supported yet"
_SOUND = "a decoder behind an encoder of speech other than Whisper's is not supported yet"
_CODES = "parallel streams of audio codes are not supported yet"
_TWO_CONFIGS = "a config of two configs, an encoder's and a decoder's, is not read yet"

_OWN_ATTENTION = "text models that read images by cross-attention of their own are not supported yet"

#: model_type -> why its configs are not read
UNSUPPORTED: dict[str, str] = {
    **dict.fromkeys(("mra", "nystromformer", "yoso"), _APPROXIMATED),
    **dict.fromkeys(("big_bird", "bigbird_pegasus"), _OF_BLOCKS),
    **dict.fromkeys(("led", "longformer", "longt5", "pegasus_x"), _GLOBAL),
    **dict.fromkeys(("clip", "clip_text_model", "clip_vision_model", "imagegpt", "siglip", "vit"), _IMAGES),
    **dict.fromkeys(("layoutlm", "tapas"), _PLACES),
    **dict.fromkeys(("neomme", "pix2struct", "pp_formulanet", "udop", "ultravbert"), _PATCHES),
    **dict.fromkeys(("seamless_m4t", "seamless_m4t_v2"), _SPEECH),
    **dict.fromkeys(("canary", "cohere_asr", "moonshine", "moonshine_streaming", "speech_to_text", "speecht5"), _SOUND),
    **dict.fromkeys(
        ("bark", "csm", "dia", "higgs_audio_v2", "kyutai_speech_to_text", "musicgen", "musicgen_melody"), _CODES
    ),
    **dict.fromkeys(("codet5p", "encoder-decoder", "speech-encoder-decoder", "vision-encoder-decoder"), _TWO_CONFIGS),
    "ultravox": "its text model is another repository's, which text_model_id names",
    "canine": "characters that convolutions pool are not supported yet",
    "convbert": "convolutions whose taps each token makes are not supported yet",
    "esm": "a head over attention weights (contacts) is not supported yet",
    "flaubert": "positions, layers and head of XLM are not read yet",
    "fnet": "layers that mix tokens by a Fourier transform are not supported yet",
    "fsmt": "an encoder and a decoder with different vocabularies are not read yet",
    "funnel": "sequences that are pooled from block to block are not supported yet",
    "luke": "entities beside tokens are not supported yet",
    "mobilebert": "bottlenecks around each layer are not supported yet",
    "nezha": "learned distances in keys and values are not supported yet",
    "perceiver": "latents that read the input by cross-attention are not supported yet",
    "prophetnet": "several next tokens by streams of attention are not supported yet",
    "reformer": "attention among tokens of one hash is not supported yet",
    "splinter": "a head that points at spans for each question is not supported yet",
    "squeezebert": "projections by groups of channels are not supported yet",
    "t5gemma2": "attention to both sequences in one softmax is not supported yet",
    "ultrabert": "two dense layers in front of the output matrix are not supported yet",
    "xlm": "tables of languages are not supported yet",
    "xmod": "adapters for each language, which share a norm with their layer, are not supported yet",
    "blip": "a text decoder with cross-attention to an image encoder is not read yet",
    "blt": "byte patches between smaller transformers are not supported yet",
    "chameleon": "queries and keys normed with weights of every head are not supported yet",
    "evolla": _OWN_ATTENTION,
    "gemma4_assistant": "a draft that reads another model's keys and values is not a model by itself",
    "gemma4_unified_assistant": "a draft that reads another model's keys and values is not a model by itself",
    "git": "a text decoder that reads its image as a prefix of tokens is not read yet",
    "hymba": "attention and Mamba heads side by side behind learned tokens are not supported yet",
    "idefics": _OWN_ATTENTION,
    "jet_nemotron": "linear attention with convolutions that each token makes is not supported yet",
    "kosmos-2": "a text model with norms inside its sublayers is not read yet",
    "kosmos-2.5": "a text model with sinusoidal positions beside an image encoder is not read yet",
    "moshi": "a decoder beside a depth decoder over audio codes is not supported yet",
    "pop2piano": "spectrograms beside the tokens of a text-to-text model are not supported yet",
    "pi0": "a second model that writes actions beside the text model is not supported yet",
    "plamo2": "Mamba whose heads make their steps of what was convolved is not supported yet",
    "trocr": "a decoder that reads an image encoder's output is not read yet",
    "unlimited_ocr": "windows over what was generated beside a prompt that is seen whole are not supported yet",
    "xlnet": "attention of two streams is not supported yet",
}
