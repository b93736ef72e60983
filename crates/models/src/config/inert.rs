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
            "resid_pdrop",
            "unsloth_fixed",
            "unsloth_version",
        ],
    ),
    (
        "how another engine runs the model",
        &[
            "_attn_implementation",
            "_attn_implementation_autoset",
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
        "token ids; generation_config.json and the tokenizer are read for them",
        &["bos_token_id", "eos_token_id", "pad_token_id"],
    ),
    (
        "names of classes, for classifiers; a decoder's checkpoint carries the defaults",
        &["id2label", "label2id", "num_labels", "problem_type"],
    ),
];

/// Whether `key` says nothing about what the model computes.
pub fn is_inert(key: &str) -> bool {
    INERT.iter().any(|(_, keys)| keys.contains(&key))
}
