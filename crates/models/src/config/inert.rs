//! Keys of `config.json` that do not change what a model computes.

/// The inert keys by the reason why they are.
const INERT: &[(&str, &[&str])] = &[
    (
        "identity; the family was chosen by it already",
        &[
            "_name_or_path",
            "architectures",
            "auto_map",
            "is_llama_config",
            "model_type",
            "tokenizer_class",
            "transformers_version",
        ],
    ),
    ("the tensors' headers say it themselves", &["torch_dtype", "dtype"]),
    ("answered by its own finding", &["quantization_config"]),
    (
        "training only",
        &[
            "attention_dropout",
            "attn_pdrop",
            "classifier_dropout",
            "embd_pdrop",
            "hidden_dropout",
            "hidden_dropout_prob",
            "initializer_range",
            "output_router_logits",
            "router_aux_loss_coef",
            "router_jitter_noise",
            "resid_pdrop",
            "unsloth_fixed",
            "unsloth_version",
        ],
    ),
    (
        "how another engine runs the model",
        &[
            "attn_implementation",
            "cache_implementation",
            "output_attentions",
            "output_hidden_states",
            "return_dict",
            "torchscript",
            "transformers.js_config",
            "use_cache",
            // Splits products to reproduce the rounding of a training run; the mathematics is the same.
            "pretraining_tp",
        ],
    ),
    (
        "generation; generation_config.json is read for it, and old files repeat the defaults here",
        &[
            "bad_words_ids",
            "begin_suppress_tokens",
            "do_sample",
            "diversity_penalty",
            "encoder_no_repeat_ngram_size",
            "exponential_decay_length_penalty",
            "length_penalty",
            "max_length",
            "min_length",
            "no_repeat_ngram_size",
            "num_beam_groups",
            "num_beams",
            "num_return_sequences",
            "output_scores",
            "remove_invalid_values",
            "repetition_penalty",
            "return_dict_in_generate",
            "suppress_tokens",
            "temperature",
            "top_k",
            "top_p",
            "typical_p",
        ],
    ),
    (
        "what every configuration of transformers may carry, whatever its model",
        &[
            "chunk_size_feed_forward",
            "finetuning_task",
            "is_llama_config",
            "prefix",
            "pruned_heads",
            "task_specific_params",
            "tf_legacy_loss",
            "tokenizer_class",
            "transformers.js_config",
        ],
    ),
    (
        "names of classes, for classifiers; a decoder's checkpoint carries the defaults",
        &["id2label", "label2id", "num_labels", "problem_type"],
    ),
];

/// Whether `key` says nothing about what the model computes.
///
/// Besides the table: names with a leading underscore are private notes of the library that wrote the file (a family that
/// reads one, as Gemma 3 does, consumes it first), and `..._token_id` are ids, for which `generation_config.json` and the
/// tokenizer are read.
pub fn is_inert(key: &str) -> bool {
    key.starts_with('_')
        || key.ends_with("_token_id")
        || INERT.iter().any(|(_, keys)| keys.contains(&key))
}
