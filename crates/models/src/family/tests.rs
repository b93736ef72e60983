//! Each family's configuration, field by field, and every spelling and trap that is known of it.

mod routed;

use std::path::Path;

use serde_json::{Map, Value, json};

use super::*;
use crate::{
    files::{MAX_CONFIG, read_json_object},
    semantic::{
        Activation, AttentionSpec, FeedForward, GatedMlpSpec, LayerSpec, Mixer, NormSpec,
        QkNormExtent, QkNormSpec, RopeScaling, RopeSpec,
    },
};

fn config_of(directory: &str) -> Map<String, Value> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(directory);
    read_json_object(&root.join("config.json"), MAX_CONFIG).unwrap()
}

fn fixture(name: &str) -> Map<String, Value> {
    config_of(&format!("fixtures/{name}"))
}

/// The fixture's configuration with these keys set; null stays null, `"absent"` removes the key.
fn with(name: &str, changes: Value) -> Map<String, Value> {
    let mut root = fixture(name);
    for (key, value) in changes.as_object().unwrap() {
        if *value == "absent" {
            root.remove(key);
        } else {
            root.insert(key.clone(), value.clone());
        }
    }
    root
}

fn read_config(root: Map<String, Value>) -> Result<DecoderSemantic, String> {
    let config = Config::from_object(root);
    let mut findings = Findings::default();
    let family = Family::of(&config).map_err(|error| error.to_string())?;
    let semantic = family.semantic(&config, &[], &mut findings);
    match findings.into_result() {
        Ok(_) => Ok(semantic.expect("no finding says why there is no meaning")),
        Err(error) => Err(error.to_string()),
    }
}

fn semantic(root: Map<String, Value>) -> DecoderSemantic {
    read_config(root).unwrap_or_else(|error| panic!("{error}"))
}

fn refusal(name: &str, changes: Value) -> String {
    read_config(with(name, changes)).expect_err("the configuration is wrong")
}

fn attention(semantic: &DecoderSemantic, layer: usize) -> &AttentionSpec {
    let Mixer::Attention(attention) = &semantic.layers[layer].mixer;
    attention
}

fn windows(semantic: &DecoderSemantic) -> Vec<Option<usize>> {
    (0..semantic.layers.len()).map(|layer| attention(semantic, layer).window).collect()
}

fn norm(eps: f32) -> NormSpec {
    NormSpec { eps, weight_offset: 0.0 }
}

fn rope(theta: f64, rotary_dim: usize) -> RopeSpec {
    RopeSpec { theta, rotary_dim, scaling: RopeScaling::None }
}

/// A layer as most fixtures have it: 4 heads and 2 for keys, 32 wide; 128 hidden, 256 between.
fn plain_layer(eps: f32, rope: RopeSpec) -> LayerSpec {
    LayerSpec {
        mixer_pre_norm: Some(norm(eps)),
        mixer: Mixer::Attention(plain_attention(rope)),
        mixer_post_norm: None,
        ff_pre_norm: Some(norm(eps)),
        feed_forward: mlp(256, Activation::Silu),
        ff_post_norm: None,
        residual_scale: 1.0,
    }
}

fn plain_attention(rope: RopeSpec) -> AttentionSpec {
    AttentionSpec {
        heads: 4,
        kv_heads: 2,
        head_dim: 32,
        scale: 0.176_776_69,
        window: None,
        rope: Some(rope),
        qk_norm: None,
        qkv_bias: false,
        output_bias: false,
        softcap: None,
    }
}

fn mlp(intermediate_size: usize, activation: Activation) -> FeedForward {
    FeedForward::Dense(GatedMlpSpec { intermediate_size, activation, bias: false })
}

/// A decoder as most fixtures are: 512 words, untied, no scales.
fn plain_decoder(eps: f32, layers: Vec<LayerSpec>) -> DecoderSemantic {
    DecoderSemantic {
        hidden_size: 128,
        vocab_size: 512,
        max_positions: 4096,
        embedding: crate::semantic::EmbeddingSpec { scale: 1.0 },
        layers,
        final_norm: norm(eps),
        head: crate::semantic::HeadSpec { tied: false, logit_scale: 1.0, softcap: None },
        draft_layers: 0,
    }
}

#[test]
fn llama() {
    let scaling = RopeScaling::Llama3 {
        factor: 8.0,
        low_freq_factor: 1.0,
        high_freq_factor: 4.0,
        original_max: 64,
    };
    let layer = plain_layer(1e-5, RopeSpec { scaling, ..rope(10_000.0, 32) });
    assert_eq!(semantic(fixture("llama")), plain_decoder(1e-5, vec![layer; 3]));
}

#[test]
fn llama_with_a_tied_head() {
    let mut layer = plain_layer(1e-5, rope(10_000.0, 64));
    layer.mixer = Mixer::Attention(AttentionSpec {
        heads: 2,
        kv_heads: 1,
        head_dim: 64,
        scale: 0.125,
        ..plain_attention(rope(10_000.0, 64))
    });
    let mut wanted = plain_decoder(1e-5, vec![layer; 2]);
    wanted.head.tied = true;
    assert_eq!(semantic(fixture("llama-tied")), wanted);
}

#[test]
fn llama_biases_are_on_all_projections() {
    let changed = with("llama", json!({"attention_bias": true, "mlp_bias": true}));
    let semantic = semantic(changed);
    assert!(attention(&semantic, 0).qkv_bias && attention(&semantic, 0).output_bias);
    assert!(semantic.layers[0].feed_forward.dense().unwrap().bias);
    let family = FAMILIES.iter().find(|family| family.name == "llama").unwrap();
    let biases: Vec<String> = family
        .plan(&semantic, &family.names[0])
        .into_iter()
        .map(|weight| weight.source.tensor)
        .filter(|name| name.starts_with("model.layers.0.") && name.ends_with(".bias"))
        .collect();
    let wanted = ["self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj", "self_attn.o_proj"]
        .into_iter()
        .chain(["mlp.gate_proj", "mlp.up_proj", "mlp.down_proj"]);
    let wanted: Vec<String> = wanted.map(|name| format!("model.layers.0.{name}.bias")).collect();
    assert_eq!(biases, wanted);
}

#[test]
fn mistral() {
    let mut layer = plain_layer(1e-5, rope(10_000.0, 32));
    layer.mixer =
        Mixer::Attention(AttentionSpec { window: Some(24), ..plain_attention(rope(10_000.0, 32)) });
    assert_eq!(semantic(fixture("mistral")), plain_decoder(1e-5, vec![layer; 3]));
}

#[test]
fn an_absent_window_of_mistral_is_4096_and_a_null_one_is_none() {
    let positions = json!(32768);
    let absent = json!({"sliding_window": "absent", "max_position_embeddings": positions});
    assert_eq!(windows(&semantic(with("mistral", absent))), [Some(4096); 3]);
    let null = json!({"sliding_window": null, "max_position_embeddings": positions});
    assert_eq!(windows(&semantic(with("mistral", null))), [None; 3]);
    // No sequence outgrows a window of max_positions: full attention.
    assert_eq!(windows(&semantic(with("mistral", json!({"sliding_window": 4096})))), [None; 3]);
    assert_eq!(
        windows(&semantic(with("mistral", json!({"sliding_window": 4095})))),
        [Some(4095); 3]
    );
}

#[test]
fn qwen2() {
    let mut layer = plain_layer(1e-6, rope(1e6, 32));
    layer.mixer =
        Mixer::Attention(AttentionSpec { qkv_bias: true, ..plain_attention(rope(1e6, 32)) });
    assert_eq!(semantic(fixture("qwen2")), plain_decoder(1e-6, vec![layer; 3]));
}

#[test]
fn windows_of_qwen2_need_three_keys_to_agree() {
    let window = |changes: Value| windows(&semantic(with("qwen2", changes)));
    let used = |first: usize| json!({"use_sliding_window": true, "sliding_window": 16, "max_window_layers": first});
    assert_eq!(window(json!({"sliding_window": 16, "max_window_layers": 0})), [None; 3]);
    assert_eq!(window(used(1)), [None, Some(16), Some(16)]);
    assert_eq!(window(used(3)), [None; 3]);
    let types = json!(["sliding_attention", "full_attention", "full_attention"]);
    let by_type =
        json!({"use_sliding_window": true, "sliding_window": 16, "layer_types": types.clone()});
    assert_eq!(window(by_type), [Some(16), None, None]);
    let unused = refusal("qwen2", json!({"layer_types": types}));
    assert!(unused.contains("sliding_window: is missing"), "{unused}");
}

#[test]
fn qwen3() {
    let mut layer = plain_layer(1e-6, rope(1e6, 64));
    layer.mixer = Mixer::Attention(AttentionSpec {
        head_dim: 64,
        scale: 0.125,
        qk_norm: Some(QkNormSpec { norm: norm(1e-6), extent: QkNormExtent::Head }),
        ..plain_attention(rope(1e6, 64))
    });
    assert_eq!(semantic(fixture("qwen3")), plain_decoder(1e-6, vec![layer; 3]));
    let tied = semantic(fixture("qwen3-tied"));
    assert!(tied.head.tied);
    assert_eq!((attention(&tied, 0).heads, attention(&tied, 0).head_dim), (2, 128));
}

fn gemma_norm() -> NormSpec {
    NormSpec { eps: 1e-6, weight_offset: 1.0 }
}

fn gemma_decoder(intermediate: usize, attentions: Vec<AttentionSpec>) -> DecoderSemantic {
    let layer = |attention| LayerSpec {
        mixer_pre_norm: Some(gemma_norm()),
        mixer: Mixer::Attention(attention),
        mixer_post_norm: Some(gemma_norm()),
        ff_pre_norm: Some(gemma_norm()),
        feed_forward: mlp(intermediate, Activation::GeluTanh),
        ff_post_norm: Some(gemma_norm()),
        residual_scale: 1.0,
    };
    let mut decoder = plain_decoder(1e-6, attentions.into_iter().map(layer).collect());
    decoder.embedding.scale = 11.313_708;
    decoder.final_norm = gemma_norm();
    decoder.head.tied = true;
    decoder
}

#[test]
fn gemma2() {
    let attention = |window| AttentionSpec {
        head_dim: 64,
        // Of query_pre_attn_scalar, 32, not of head_dim.
        scale: 0.176_776_69,
        softcap: Some(5.0),
        window,
        ..plain_attention(rope(10_000.0, 64))
    };
    let layers = [Some(16), None, Some(16), None].map(attention);
    let mut wanted = gemma_decoder(256, layers.to_vec());
    wanted.head.softcap = Some(30.0);
    // The fixture says hidden_act: "silu" beside hidden_activation; the latter decides.
    assert_eq!(semantic(fixture("gemma2")), wanted);
}

#[test]
fn caps_of_gemma2_are_there_unless_they_are_null() {
    let absent = json!({"attn_logit_softcapping": "absent", "final_logit_softcapping": "absent"});
    let with_defaults = semantic(with("gemma2", absent));
    assert_eq!(attention(&with_defaults, 0).softcap, Some(50.0));
    assert_eq!(with_defaults.head.softcap, Some(30.0));
    let null = json!({"attn_logit_softcapping": null, "final_logit_softcapping": null});
    let without = semantic(with("gemma2", null));
    assert_eq!((attention(&without, 0).softcap, without.head.softcap), (None, None));
}

fn gemma3_attention(head_dim: usize, window: Option<usize>, theta: f64) -> AttentionSpec {
    AttentionSpec {
        heads: 4,
        kv_heads: 1,
        head_dim,
        scale: (head_dim as f32).sqrt().recip(),
        qk_norm: Some(QkNormSpec { norm: gemma_norm(), extent: QkNormExtent::Head }),
        window,
        ..plain_attention(rope(theta, head_dim))
    }
}

#[test]
fn gemma3() {
    let sliding = gemma3_attention(64, Some(16), 10_000.0);
    let full = gemma3_attention(64, None, 1_000_000.0);
    let period = [sliding.clone(), sliding, full];
    let layers = [period.clone(), period].concat();
    assert_eq!(semantic(fixture("gemma3")), gemma_decoder(192, layers));
}

#[test]
fn a_wide_window_of_gemma3_is_no_window_but_keeps_the_local_base() {
    let root = with("gemma3-hd256", json!({"max_position_embeddings": 512}));
    let semantic = semantic(root);
    assert_eq!(windows(&semantic), [None; 3]);
    let thetas: Vec<f64> =
        (0..3).map(|layer| attention(&semantic, layer).rope.as_ref().unwrap().theta).collect();
    assert_eq!(thetas, [10_000.0, 10_000.0, 1_000_000.0]);
}

#[test]
fn the_period_of_gemma3_has_three_spellings_and_a_default() {
    let full = |changes: Value| {
        let mut all = json!({"layer_types": "absent", "num_hidden_layers": 7});
        all.as_object_mut().unwrap().extend(changes.as_object().unwrap().clone());
        let windows = windows(&semantic(with("gemma3", all)));
        let full = windows.iter().enumerate().filter(|(_, window)| window.is_none());
        full.map(|(layer, _)| layer).collect::<Vec<usize>>()
    };
    assert_eq!(full(json!({})), [5]);
    assert_eq!(full(json!({"sliding_window_pattern": 3})), [2, 5]);
    assert_eq!(full(json!({"_sliding_window_pattern": 2})), [1, 3, 5]);
}

#[test]
fn scaling_of_gemma3_is_for_full_layers_alone() {
    let scaled = json!({"rope_scaling": {"rope_type": "linear", "factor": 8.0}});
    let semantic = semantic(with("gemma3", scaled));
    let scaling = |layer| &attention(&semantic, layer).rope.as_ref().unwrap().scaling;
    assert_eq!(*scaling(0), RopeScaling::None);
    assert_eq!(*scaling(2), RopeScaling::Linear { factor: 8.0 });
    // In the new form there is no telling which layers a flat object means.
    let flat = json!({"rope_parameters": {"rope_type": "linear", "factor": 8.0}});
    let text = refusal("gemma3", flat);
    assert!(text.contains("has neither full_attention nor sliding_attention"), "{text}");
}

/// The larger Gemma 3 models: the text model's configuration inside, what equals the defaults left out.
#[test]
fn a_multimodal_gemma3_is_read_for_its_text() {
    let root = json!({
        "architectures": ["Gemma3ForConditionalGeneration"],
        "model_type": "gemma3",
        "boi_token_index": 255_999, "eoi_token_index": 256_000, "eos_token_id": [1, 106],
        "image_token_index": 262_144, "initializer_range": 0.02, "mm_tokens_per_image": 256,
        "torch_dtype": "bfloat16", "transformers_version": "4.50.0.dev0",
        "text_config": {
            "hidden_size": 2560, "intermediate_size": 10240, "model_type": "gemma3_text",
            "num_hidden_layers": 34, "sliding_window": 1024,
            "rope_scaling": {"factor": 8.0, "rope_type": "linear"}
        },
        "vision_config": {"hidden_size": 1152, "model_type": "siglip_vision_model"}
    });
    let semantic = semantic(root.as_object().unwrap().clone());
    assert_eq!((semantic.vocab_size, semantic.max_positions), (262_208, 131_072));
    let attention = attention(&semantic, 0);
    assert_eq!((attention.heads, attention.kv_heads, attention.head_dim), (8, 4, 256));
    assert_eq!(attention.scale, 0.0625);
    assert!(semantic.head.tied);
    assert_eq!(windows(&semantic).iter().filter(|window| window.is_none()).count(), 5);
    let unknown = json!({"text_config": {"depth": 3}}).as_object().unwrap().clone();
    let mut root = root.as_object().unwrap().clone();
    root.extend(unknown);
    let text = read_config(root).unwrap_err();
    assert!(text.contains("text_config.depth: is 3; this key is not understood"), "{text}");
}

#[test]
fn phi3_longrope() {
    let root = fixture("phi3-longrope");
    let list = |key: &str| -> Vec<f64> {
        root["rope_scaling"][key].as_array().unwrap().iter().map(|n| n.as_f64().unwrap()).collect()
    };
    let scaling = RopeScaling::LongRope {
        short: list("short_factor"),
        long: list("long_factor"),
        original_max: 4096,
        // sqrt(1 + ln(131072 / 4096) / ln(4096))
        attention_factor: 1.190_238_071_423_808_3,
    };
    let layer = plain_layer(1e-5, RopeSpec { scaling, ..rope(10_000.0, 32) });
    let mut wanted = plain_decoder(1e-5, vec![layer; 3]);
    wanted.max_positions = 131_072;
    assert_eq!(semantic(root), wanted);
    let long = semantic(fixture("phi3-longrope-long"));
    assert_eq!(long.regime_thresholds(), [16]);
    let rope = attention(&long, 0).rope.as_ref().unwrap();
    assert_eq!(rope.frequencies(1).attention_factor, 1.5);
}

#[test]
fn phi3_rotates_a_part_of_each_head_if_it_says_so() {
    let short: Vec<f64> = vec![1.0; 12];
    let scaling = json!({"type": "su", "short_factor": short, "long_factor": short});
    let changes = json!({"partial_rotary_factor": 0.75, "rope_scaling": scaling,
        "full_attn_mod": 1, "interpolate_factor": 1});
    let semantic = semantic(with("phi3-longrope", changes));
    assert_eq!(attention(&semantic, 0).rope.as_ref().unwrap().rotary_dim, 24);
    let text = refusal("phi3-longrope", json!({"partial_rotary_factor": 0.75}));
    assert!(text.contains("rope_scaling.short_factor: has 16 numbers, wanted 12"), "{text}");
    let text = refusal("llama", json!({"partial_rotary_factor": 0.5}));
    assert!(text.contains("is 0.5, but this family rotates whole heads"), "{text}");
}

#[test]
fn phi3_weights_are_row_ranges_of_fused_tensors() {
    let semantic = semantic(fixture("phi3-longrope"));
    let family = FAMILIES.iter().find(|family| family.name == "phi3").unwrap();
    let plan = family.plan(&semantic, &family.names[0]);
    let ranges: Vec<_> = plan
        .iter()
        .filter(|weight| weight.source.tensor.starts_with("model.layers.1."))
        .filter_map(|weight| weight.source.rows.clone())
        .collect();
    assert_eq!(ranges, [0..128, 128..192, 192..256, 0..256, 256..512]);
}

#[test]
fn granite() {
    let mut layer = plain_layer(1e-5, rope(10_000.0, 32));
    layer.mixer =
        Mixer::Attention(AttentionSpec { scale: 0.3, ..plain_attention(rope(10_000.0, 32)) });
    layer.residual_scale = 0.7;
    let mut wanted = plain_decoder(1e-5, vec![layer; 3]);
    wanted.embedding.scale = 3.0;
    wanted.head.logit_scale = 0.5;
    assert_eq!(semantic(fixture("granite")), wanted);
}

#[test]
fn olmo2() {
    let mut layer = plain_layer(1e-6, rope(500_000.0, 32));
    layer.mixer = Mixer::Attention(AttentionSpec {
        qk_norm: Some(QkNormSpec { norm: norm(1e-6), extent: QkNormExtent::Projection }),
        ..plain_attention(rope(500_000.0, 32))
    });
    (layer.mixer_pre_norm, layer.mixer_post_norm) = (None, Some(norm(1e-6)));
    (layer.ff_pre_norm, layer.ff_post_norm) = (None, Some(norm(1e-6)));
    assert_eq!(semantic(fixture("olmo2")), plain_decoder(1e-6, vec![layer; 3]));
}

/// Every fixture, rewritten as transformers 5 would save it, means the same.
#[test]
fn old_and_new_form_mean_the_same() {
    let names = [
        "llama",
        "llama-tied",
        "mistral",
        "qwen2",
        "qwen3",
        "gemma2",
        "gemma3",
        "gemma3-hd256",
        "phi3-longrope",
        "phi3-longrope-long",
        "granite",
        "olmo2",
    ];
    for name in names {
        let old = fixture(name);
        let mut new = old.clone();
        let dtype = new.remove("torch_dtype").unwrap();
        new.insert("dtype".into(), dtype);
        let scaling = new.remove("rope_scaling").filter(|scaling| !scaling.is_null());
        let mut parameters = scaling.unwrap_or(json!({"rope_type": "default"}));
        parameters["rope_theta"] = new.remove("rope_theta").unwrap();
        if let Some(local) = new.remove("rope_local_base_freq") {
            parameters = json!({"full_attention": parameters,
                "sliding_attention": {"rope_type": "default", "rope_theta": local}});
        }
        new.insert("rope_parameters".into(), parameters);
        assert_ne!(old, new);
        assert_eq!(semantic(new), semantic(old), "{name}");
    }
}

/// Real configurations of the dense families; the others are named as unsupported.
#[test]
fn published_configurations_are_read() {
    let dense = [
        ("llama-3.1-8b", 32, 8192),
        ("llama-3.1-70b", 80, 8192),
        ("llama-3.2-1b", 16, 8192),
        ("qwen3-0.6b", 28, 0),
        ("qwen3-8b", 36, 0),
        ("qwen3-emb-0.6b", 28, 0),
    ];
    for (name, layers, original) in dense {
        let semantic = semantic(config_of(&format!("benches/configs/{name}")));
        assert_eq!(semantic.layers.len(), layers, "{name}");
        let rope = attention(&semantic, 0).rope.clone().unwrap();
        match rope.scaling {
            RopeScaling::Llama3 { original_max, .. } => assert_eq!(original_max, original),
            other => assert_eq!((other, original), (RopeScaling::None, 0), "{name}"),
        }
    }
    let text = read_config(config_of("benches/configs/gpt-oss-20b")).unwrap_err();
    assert!(text.contains("architectures: is GptOssForCausalLM, which is not supported"), "{text}");
    assert!(text.contains("LlamaForCausalLM"), "{text}");
}

#[test]
fn what_is_wrong_is_told_all_at_once_with_its_numbers() {
    let text = refusal(
        "llama",
        json!({"num_key_value_heads": 3, "hidden_act": "relu", "sliding_window": 7, "logit_scale": 0.5}),
    );
    for part in [
        "num_key_value_heads: is 3, which does not divide num_attention_heads, 4",
        "hidden_act: is \"relu\", known are silu, swish, gelu",
        "sliding_window: is 7; this key is not understood",
        "logit_scale: is 0.5; this key is not understood \
         (if it does not change the model's meaning: --ignore-config-key logit_scale)",
    ] {
        assert!(text.contains(part), "{part} is not in\n{text}");
    }
}

#[test]
fn sizes_that_no_model_has_are_refused_before_anything_is_built() {
    for (key, value) in [
        ("num_hidden_layers", json!(u64::MAX)),
        ("num_hidden_layers", json!(0)),
        ("hidden_size", json!(-1)),
        ("vocab_size", json!(1e30)),
        ("num_attention_heads", json!(0)),
        ("intermediate_size", json!("256")),
        ("max_position_embeddings", json!([])),
    ] {
        let text = refusal("llama", json!({key: value}));
        assert!(text.contains(&format!("{key}: is {value}, wanted a whole number")), "{text}");
    }
    let text = refusal(
        "llama",
        json!({"head_dim": null, "num_attention_heads": 3, "num_key_value_heads": 3}),
    );
    assert!(text.contains("is 3, which does not divide hidden_size, 128"), "{text}");
    let text = refusal("llama", json!({"head_dim": 33}));
    assert!(text.contains("head_dim: is 33, but rotary positions need pairs"), "{text}");
}

#[test]
fn rope_that_is_not_understood_is_refused() {
    let scaling = |value: Value| refusal("llama", json!({"rope_scaling": value}));
    let text = scaling(json!({"rope_type": "spiral", "factor": 2.0}));
    assert!(
        text.contains("rope_scaling.rope_type: is \"spiral\", known are default, linear"),
        "{text}"
    );
    let text = scaling(json!({"type": "dynamic", "factor": 2.0}));
    assert!(text.contains("is \"dynamic\", which is not supported"), "{text}");
    let text = scaling(json!({"type": "linear"}));
    assert!(text.contains("rope_scaling.factor: is missing"), "{text}");
    let text = scaling(json!({"type": "linear", "factor": 2.0, "mrope_section": [1, 2]}));
    assert!(text.contains("rope_scaling.mrope_section: is [1,2]; this key is not"), "{text}");
    let text = scaling(json!({"type": "linear", "rope_type": "llama3", "factor": 2.0}));
    assert!(text.contains("is \"linear\", but rope_type is \"llama3\""), "{text}");
    let both = json!({"rope_scaling": {"type": "linear", "factor": 2.0},
        "rope_parameters": {"type": "linear", "factor": 4.0}});
    assert!(refusal("llama", both).contains("differs from rope_parameters"));
    // Frequencies by layer type have no meaning where all layers are alike.
    let nested = json!({"rope_scaling": "absent", "rope_parameters": {"full_attention": {"rope_theta": 1.0}}});
    let text = refusal("llama", nested);
    assert!(text.contains("rope_parameters.full_attention: is {"), "{text}");
}

#[test]
fn yarn_takes_its_attention_factor_from_whatever_says_it() {
    let factor = |extra: Value| {
        let mut scaling = json!({"rope_type": "yarn", "factor": 4.0,
            "original_max_position_embeddings": 1024});
        scaling.as_object_mut().unwrap().extend(extra.as_object().unwrap().clone());
        let semantic = semantic(with("qwen3", json!({"rope_scaling": scaling})));
        match attention(&semantic, 0).rope.as_ref().unwrap().scaling {
            RopeScaling::Yarn { attention_factor, original_max: 1024, .. } => attention_factor,
            ref other => panic!("{other:?}"),
        }
    };
    let suggested = 0.1 * 4.0_f64.ln() + 1.0;
    assert_eq!(factor(json!({})), suggested);
    assert_eq!(factor(json!({"attention_factor": 1.25})), 1.25);
    assert_eq!(factor(json!({"mscale": 1.0, "mscale_all_dim": 1.0})), 1.0);
    assert_eq!(factor(json!({"mscale": 2.0})), suggested);
}

#[test]
fn architecture_and_model_type_must_agree() {
    let text = refusal("llama", json!({"model_type": "mistral"}));
    assert!(text.contains("is \"mistral\", but LlamaForCausalLM goes with \"llama\""), "{text}");
    assert!(read_config(with("llama", json!({"architectures": "absent"}))).is_ok());
    let text = refusal("llama", json!({"architectures": "absent", "model_type": "absent"}));
    assert!(text.contains("names neither architectures nor model_type"), "{text}");
}

#[test]
fn names_of_another_type_are_not_passed_over() {
    let text = refusal("llama", json!({"architectures": {"a": 1}, "model_type": 7}));
    assert!(text.contains("architectures: is {\"a\":1}, wanted a list of names"), "{text}");
    assert!(text.contains("model_type: is 7, wanted a name"), "{text}");
    assert!(read_config(with("llama", json!({"architectures": []}))).is_ok());
}

#[test]
fn every_family_says_who_it_is_for_and_no_architecture_is_claimed_twice() {
    let mut seen = std::collections::HashSet::new();
    for family in FAMILIES {
        assert!(!family.name.is_empty() && !family.model_type.is_empty());
        assert!(!family.names.is_empty() && !family.architectures.is_empty(), "{}", family.name);
        for name in family.architectures {
            assert!(seen.insert(name), "{name}");
        }
    }
}
