"""Which file reads which model_type: one file a vendor, of which a config loads its own alone."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from importlib import import_module

from gptcalc.sources.huggingface.reader import Reader

#: file -> the types that it reads
FAMILIES = {
    "afmoe": "afmoe",
    "albert": "albert",
    "arcee": "arcee apertus apertus1p5_text jais2",
    "aria": "aria_text",
    "axk": "axk1 axk2",
    "baichuan": "baichuan",
    "bailing": "bailing_moe bailing_moe_v2",
    "bamba": "bamba",
    "beam": "beam",
    "bart": "bart mbart pegasus marian m2m_100 whisper plbart mvp blenderbot blenderbot-small nllb-moe",
    "bert": "bert roberta xlm-roberta camembert mpnet electra",
    "biogpt": "biogpt",
    "berts": "ernie megatron-bert bert-generation data2vec-text roberta-prelayernorm xlm-roberta-xl ibert roc_bert"
    " jina_embeddings_v3 roformer rembert",
    "bitnet": "bitnet",
    "bloom": "bloom",
    "cohere": "cohere cohere2 cohere2_moe cohere_compass_text",
    "cosmos": "cosmos3_edge_text",
    "cpmant": "cpmant",
    "ctrl": "ctrl",
    "deberta": "deberta deberta-v2",
    "deepseek": "deepseek deepseek_v2 deepseek_v3 kimi_k2 deepseek_v32 deepseek_ocr2_text",
    "deepseek_v4": "deepseek_v4 deepseek_ref",
    "diffllama": "diffllama",
    "distilbert": "distilbert",
    "doge": "doge",
    "drafts": "LlamaForCausalLMEagle3 Eagle3LlamaForCausalLM DFlashDraftModel QwenDFlashDraftModel DSparkDraftModel"
    " DominoDraftModel",
    "dory": "dory",
    "dots": "dots1 dots3_note_text",
    "ernie": "ernie4_5 ernie4_5_moe ernie4_5_vl_moe_text paddleocr_vl_text",
    "esm": "esmc",
    "eurobert": "eurobert",
    "exaone": "exaone exaone4 exaone_moe",
    "falcon": "falcon RefinedWebModel RefinedWeb",
    "falcon_h1": "falcon_h1",
    "fla_transformer": "transformer",
    "fla": "delta_net gated_deltanet gla gsa hgrn hgrn2 samba",
    "flint": "flint",
    "gemma": "gemma gemma2 gemma3_text gemma3n_text gemma4_text gemma4_unified_text vaultgemma diffusion_gemma_text",
    "glm": "glm glm4 glm4_moe glm4v_moe_text chatglm chatglm-6b glm_moe_dsa glm4_moe_lite glm4v_text glm_ocr_text",
    "glm5": "glm5_next_text",
    "gpt2": "gpt2 openai-gpt gpt-sw3",
    "gpt_neo": "gpt_neo gptj codegen gpt_neox gpt_neox_japanese gpt_neox_reward_model moss",
    "gpt_oss": "gpt_oss",
    "granite": "granite granitemoe granitemoeshared granite_swa granitemoehybrid granitemoe_swa hyperclovax"
    " granite_docling_text granite4_vision_text",
    "grok": "grok-1 grok-2",
    "helium": "helium",
    "hrm": "hrm_text",
    "hunyuan": "hunyuan_v1_dense hunyuan_v1_moe hy_v3 hunyuan hunyuan_vl_text",
    "hunyuan4": "hy_v4 hy_v4_vl_text",
    "inkling": "inkling_text inkling2_text inkling2_loop_text",
    "internlm": "internlm internlm2 internlm3",
    "jais": "jais btlm",
    "jamba": "jamba",
    "jetmoe": "jetmoe",
    "kimi": "kimi_linear kimi_k3_text",
    "kolibri": "kolibri1",
    "laguna": "laguna",
    "lara": "lara_mini",
    "lfm": "lfm2 lfm2_moe lfm3",
    "ling": "bailing_hybrid",
    "llada": "llada Dream",
    "llama": "PanguEmbedded Yi llama emu3_text_model cwm iquestcoder xverse aquila skywork sparsellama mobilellm",
    "llama4": "llama4_text",
    "longcat": "longcat_flash",
    "mamba": "mamba falcon_mamba mamba2",
    "mellum": "mellum",
    "mimo": "mimo_v2_flash mimo",
    "minicpm": "minicpm minicpm3",
    "minimind": "minimind minimind-1 minimind-3",
    "minimax": "minimax_m2 minimax_m3 minimax_m3_vl_text",
    "minimax_text": "minimax minimax_text_01 minimax_m1",
    "mistral": "mixtral mistral4 mistral_large4_text mistral ministral ministral3",
    "mllama": "mllama_text_model",
    "modernbert": "modernbert modernbert-decoder",
    "molmo": "molmo molmo2_text",
    "mosaic": "dbrx mpt",
    "muse": "muse_glimmer_text muse_spark_text",
    "nanochat": "nanochat",
    "nemotron": "nemotron-nas nemotron",
    "nemotron_h": "nemotron_h",
    "nomic": "nomic_bert gte new",
    "olmo": "olmo olmo2 olmo3 olmoe flex_olmo",
    "olmo_hybrid": "olmo_hybrid",
    "openelm": "openelm deci",
    "opt": "opt xglm",
    "orion": "orion",
    "persimmon": "persimmon",
    "phi": "phimoe phi phi-msft mixformer-sequential phi3 phi3small phi4_multimodal",
    "qwen": "qwen qwen2 qwen2_moe qwen3 qwen3_moe qwen2_vl qwen2_vl_text qwen2_5_vl qwen2_5_vl_text qwen2_5_omni_text"
    " qwen3_vl_text qwen3_vl_moe_text qwen3_omni_moe_text qwen3_asr_text LLaVAOneVision1_5_text",
    "qwen4": "qwen4_exp_text",
    "qwen_next": "qwen3_next qwen3_5_text qwen3_5_moe_text",
    "recurrent_gemma": "recurrent_gemma",
    "rwkv": "rwkv rwkv5",
    "rwkv_fla": "rwkv6 rwkv7",
    "sarvam": "sarvam_moe sarvam_mla",
    "seed": "seed_oss",
    "smollm": "smollm3",
    "solar": "solar_open",
    "stablelm": "stablelm stablelm_epoch",
    "starcoder": "gpt_bigcode starcoder2",
    "step": "step3_text step3p5 step3p7",
    "voxtral": "voxtral_realtime_text",
    "xlstm": "xlstm",
    "telechat": "telechat",
    "t5": "t5 mt5 umt5 switch_transformers",
    "t5gemma": "t5gemma",
    "youtu": "youtu",
    "yuan": "yuan",
    "zamba": "zamba zamba2",
    "zaya": "zaya",
}

#: classes of draft models, whose model_type says another class
DRAFTS = frozenset(FAMILIES["drafts"].split())

_HOMES = {model_type: family for family, types in FAMILIES.items() for model_type in types.split()}


class _Readers(Mapping[str, Reader]):
    """model_type -> its reader, imported when it is asked for."""

    def __getitem__(self, model_type: str) -> Reader:
        readers: dict[str, Reader] = import_module(f"gptcalc.sources.huggingface.{_HOMES[model_type]}").READERS
        return readers[model_type]

    def __iter__(self) -> Iterator[str]:
        return iter(_HOMES)

    def __len__(self) -> int:
        return len(_HOMES)

    def __contains__(self, model_type: object) -> bool:
        return isinstance(model_type, str) and model_type in _HOMES


READERS: Mapping[str, Reader] = _Readers()
