"""Fields of config.json files that change neither an architecture nor a count, whatever the model_type."""

from __future__ import annotations

from typing import Any

_FORMAT = """
architectures auto_map auto_class model_type torch_dtype dtype transformers_version transformers.js_config
tokenizer_class processor_class language license base_model name_or_path adapter_path onnx_export quantization
quantization_config compression_config unsloth_fixed unsloth_version expert_dtype problem_type id2label label2id
num_labels finetuning_task task_specific_params custom_pipelines
"""
_TOKENS = """
bos_token_id eos_token_id pad_token_id sep_token_id cls_token_id mask_token_id unk_token_id decoder_start_token_id
image_token_id video_token_id audio_token_id image_token_index video_token_index boi_token_id eoi_token_id
boa_token_id vision_start_token_id vision_end_token_id vision_token_id im_start_id im_end_id eod_token_id eoh_token_id
eop_token_id gmask_token_id bos_token eos_token pad_token max_length min_length do_sample early_stopping num_beams
num_beam_groups top_k top_p temperature typical_p repetition_penalty length_penalty diversity_penalty
no_repeat_ngram_size bad_words_ids encoder_no_repeat_ngram_size num_return_sequences forced_bos_token_id
forced_eos_token_id remove_invalid_values exponential_decay_length_penalty suppress_tokens begin_suppress_tokens
prefix generation_config
"""
_RUNNING = """
use_cache output_attentions output_hidden_states return_dict return_dict_in_generate output_scores torchscript
use_bfloat16 attn_implementation gradient_checkpointing use_flash_attn use_flash_attention use_flash_attention_2
use_fused_rms_norm use_fused_rope use_fused_crossentropy fused_linear use_cache_quantization use_cache_kernel
use_dynamic_ntk use_logn_attn softmax_in_fp32 attention_softmax_in_fp32 fp32_residual_connection residual_in_fp32
bias_dropout_fusion apply_query_key_layer_scaling num_logits_to_keep logits_to_keep pretraining_tp ep_size tp_degree
chunk_size_feed_forward keys_to_ignore_at_inference bf16 fp16 fp32 use_mamba_kernels enable_flash_attention
"""
_TRAINING = """
initializer_range initializer_factor init_std init_method_std initializer_cutoff_factor rescale_prenorm_residual
embedding_initializer_range init_cutoff_factor init_device init_fn use_scaled_init weight_init attention_dropout
attention_dropout_prob attention_probs_dropout_prob attn_dropout attn_pdrop embd_pdrop embd_dropout emb_dropout
emb_dropout_prob emb_pdrop embedding_dropout embed_dropout resid_pdrop resid_dropout residual_dropout
residual_dropout_prob hidden_dropout hidden_dropout_prob dropout activation_dropout classifier_dropout layerdrop
ffn_pdrop mlp_dropout ffn_dropout summary_type summary_use_proj summary_activation summary_proj_to_labels
summary_first_dropout output_router_logits router_aux_loss_coef aux_loss_alpha seq_aux router_jitter_noise
router_z_loss_coef z_loss_weight moe_loss_weight aux_loss_coef aux_loss_weight load_balance_loss_weight
load_balance_coeff moe_aux_loss_coef mtp_loss_scaling_factor mtp_loss_coef use_aux_loss moe_router_load_balancing_type
capacity_factor moe_capacity moe_use_aux_free tie_encoder_decoder pruned_heads is_decoder is_composition is_causal
attention_bias_update router_bias_update_speed moe_router_dtype router_dtype moe_router_fusion
"""
_SERVING = """
model_max_length max_sequence_length prefill_chunk_size attention_sink_size context_window_size tensor_parallel_shards
max_batch_size tf_legacy_loss sequence_length time_step_limit time_step_floor time_step_max time_step_min
mamba_ssm_dtype mamba_ssm_cache_dtype vision_config audio_config
"""

IRRELEVANT = frozenset(f"{_FORMAT} {_TOKENS} {_RUNNING} {_TRAINING} {_SERVING}".split())

#: fields that may be present in any config and say nothing while they have this value; a reader that knows more reads
#: them, and any other value is refused
WITHOUT_EFFECT: dict[str, Any] = {
    "is_encoder_decoder": False,
    "add_cross_attention": False,
    "cross_attention_hidden_size": (0,),
    "attention_bias": False,
    "mlp_bias": False,
    "use_bias": False,
    "qkv_bias": False,
    "use_qkv_bias": False,
    "lm_head_bias": False,
    "use_qk_norm": False,
    "qk_layernorm": False,
    "use_sliding_window": False,
    "alibi": False,
    "use_mtp": False,
    "num_nextn_predict_layers": 0,
    "n_shared_experts": 0,
    "num_shared_experts": 0,
    "use_cla": False,
    "shared_expert_intermediate_size": 0,
}
