//! `config.json`: whatever the values are, the answer is findings or a meaning that can be computed with.

use foundation::{
    DType,
    model::{ModelManifest, WeightOrigin},
};
use models::{
    Checkpoint, DecoderExecutionContract, Findings,
    config::Config,
    family::Family,
    semantic::{AttentionSpec, DecoderSemantic, FeedForward, Mixer},
    task::DecoderPlan,
};
use serde_json::{Value, json};

use crate::{
    FIXTURES, fixture,
    mutate::{change, places, put, values},
};

fn config_of(name: &str) -> Value {
    let text = std::fs::read(fixture(name).join("config.json")).unwrap();
    serde_json::from_slice(&text).unwrap()
}

/// The meaning, or everything that is wrong.
fn read(root: &Value) -> Result<(&'static Family, DecoderSemantic), String> {
    let config = Config::from_object(root.as_object().unwrap().clone());
    let family = Family::of(&config).map_err(|error| error.to_string())?;
    let mut findings = Findings::default();
    let semantic = family.semantic(&config, &[], &mut findings);
    assert!(semantic.is_some() || findings.has_errors(), "a meaning or a reason why there is none");
    findings.into_result().map_err(|error| error.to_string())?;
    Ok((family, semantic.unwrap()))
}

/// What backends rely on without asking.
fn assert_sound(family: &'static Family, semantic: DecoderSemantic) {
    let positive = |number: f32| assert!(number.is_finite() && number > 0.0, "{number}");
    positive(semantic.embedding.scale);
    positive(semantic.head.logit_scale);
    positive(semantic.final_norm.eps);
    semantic.head.softcap.into_iter().for_each(positive);
    assert!(!semantic.layers.is_empty());
    for layer in &semantic.layers {
        positive(layer.residual_scale);
        let Mixer::Attention(attention) = &layer.mixer;
        assert_attention_is_sound(attention, &semantic);
        assert_feed_forward_is_sound(&layer.feed_forward);
    }
    let grouped: usize = semantic.kv_groups().iter().map(|group| group.layers.len()).sum();
    assert_eq!(grouped, semantic.layers.len());
    let plan = DecoderPlan::new(family, semantic, None);
    let contract = DecoderExecutionContract::synthetic(&plan, 1, DType::F32);
    assert_eq!(contract.by_role().len(), contract.bindings.len(), "each role is there once");
    assert!(contract.parameters() <= 1 << 45, "{}", contract.parameters());
    assert_eq!(contract.weight_bytes().0, contract.parameters() * 4);
}

fn assert_feed_forward_is_sound(feed_forward: &FeedForward) {
    let routed = match feed_forward {
        FeedForward::Dense(mlp) => return assert!(mlp.intermediate_size > 0),
        FeedForward::Routed(routed) => routed,
    };
    assert!(routed.expert.intermediate_size > 0);
    assert!((1..=routed.experts).contains(&routed.per_token));
    assert!(u16::try_from(routed.experts - 1).is_ok());
    assert!(routed.router.scale.is_finite() && routed.router.scale > 0.0);
    if let Some(groups) = routed.router.groups {
        assert!(routed.experts.is_multiple_of(groups.count) && groups.kept < groups.count);
        assert!(groups.kept * (routed.experts / groups.count) >= routed.per_token);
    }
    assert!(routed.shared.is_none_or(|shared| shared.mlp.intermediate_size > 0));
}

fn assert_attention_is_sound(attention: &AttentionSpec, semantic: &DecoderSemantic) {
    assert!(attention.scale.is_finite() && attention.scale > 0.0);
    assert!(attention.heads.is_multiple_of(attention.kv_heads));
    assert!(attention.window.is_none_or(|window| (1..semantic.max_positions).contains(&window)));
    let rope = attention.rope.as_ref().unwrap();
    assert!(rope.rotary_dim <= attention.head_dim);
    for regime in [0, 1] {
        let frequencies = rope.frequencies(regime);
        assert_eq!(frequencies.inv_freq.len(), rope.rotary_dim / 2);
        assert!(frequencies.attention_factor.is_normal(), "{rope:?}");
        let finite = frequencies.inv_freq.iter().all(|freq| freq.is_finite() && *freq >= 0.0);
        assert!(finite, "{rope:?}: {frequencies:?}");
    }
}

/// Any key, the elements of lists but for the first two left out.
fn enter(place: &[String]) -> bool {
    place.last().unwrap().parse::<usize>().is_ok_and(|at| at < 2)
        || place.last().unwrap().parse::<usize>().is_err()
}

/// Each value in each place of each configuration, alone: what is refused is refused by its name.
#[test]
fn every_value_in_every_place_is_read_soundly_or_refused_by_name() {
    let mut refused = 0;
    let mut unnamed = Vec::new();
    for name in FIXTURES {
        let honest = config_of(name);
        for place in places(&honest, &enter) {
            for value in values().into_iter().map(Some).chain([None]) {
                let mut root = honest.clone();
                put(&mut root, &place, value.clone());
                match read(&root) {
                    Ok((family, semantic)) => assert_sound(family, semantic),
                    Err(text) => {
                        refused += 1;
                        if !text.contains(place[0].as_str()) {
                            unnamed.push(format!("{name}: {place:?} = {value:?}: {text}"));
                        }
                    }
                }
            }
        }
    }
    assert!(refused > 1000, "{refused}");
    assert!(
        unnamed.is_empty(),
        "{} refusals do not name the key:\n{}",
        unnamed.len(),
        unnamed.join("\n")
    );
}

#[test]
fn several_wrong_values_are_read_soundly_or_refused() {
    let values = values();
    let configs: Vec<Value> = FIXTURES.iter().map(|name| config_of(name)).collect();
    type Choices = (u8, Vec<(u16, u8)>);
    bolero::check!().with_iterations(4000).with_type::<Choices>().for_each(|(name, choices)| {
        let mut root = configs[usize::from(*name) % configs.len()].clone();
        // Keys of all families, so that what one knows and another does not is tried too.
        let places: Vec<Vec<String>> = configs.iter().flat_map(|c| places(c, &enter)).collect();
        change(&mut root, &places, &values, &choices[..choices.len().min(6)]);
        if let Ok((family, semantic)) = read(&root) {
            assert_sound(family, semantic);
        }
    });
}

fn refusal(name: &str, changes: Value) -> String {
    let mut root = config_of(name);
    for (key, value) in changes.as_object().unwrap() {
        put(&mut root, std::slice::from_ref(key), Some(value.clone()));
    }
    read(&root).map(|_| ()).expect_err("the configuration lies")
}

#[test]
fn sizes_whose_product_no_model_has() {
    let large = json!({"hidden_size": 262_144, "num_hidden_layers": 1024, "vocab_size": 16_777_216,
        "intermediate_size": 1_048_576});
    let text = refusal("llama", large);
    assert!(
        text.contains("num_hidden_layers: is 1024; with hidden_size 262144")
            && text.contains("parameters, at most 17592186044416 are read"),
        "{text}"
    );
    let long = json!({"num_hidden_layers": 1024, "num_attention_heads": 4096,
        "num_key_value_heads": 4096, "head_dim": 512, "max_position_embeddings": 1_073_741_824});
    let text = refusal("llama", long);
    assert!(
        text.contains("max_position_embeddings: is 1073741824")
            && text.contains("at most 4503599627370496 are read"),
        "{text}"
    );
    let text = refusal("llama", json!({"num_hidden_layers": 1025}));
    assert!(
        text.contains("num_hidden_layers: is 1025, wanted a whole number from 1 to 1024"),
        "{text}"
    );
}

#[test]
fn numbers_that_float32_cannot_hold_and_bases_that_turn_nothing() {
    for (key, value, wanted) in [
        ("rms_norm_eps", json!(1e-50), "is 1e-50, wanted a number above 0 that float32 holds"),
        ("rms_norm_eps", json!(-1e-6), "is -1e-6, wanted a number above 0"),
        ("rope_theta", json!(0), "is 0, wanted a number above 0"),
        ("rope_theta", json!(-10000.0), "is -10000.0, wanted a number above 0"),
        ("rope_theta", json!(1e300), "is 1e+300, wanted a number above 0 that float32 holds"),
        ("rope_theta", json!(1.0), "is 1, wanted a number above 1"),
        ("head_dim", json!(0), "is 0, wanted a whole number from 1"),
        ("head_dim", json!(31), "is 31, but rotary positions need pairs"),
    ] {
        let text = refusal("llama", json!({key: value}));
        assert!(text.contains(&format!("{key}: {wanted}")), "{key}: {text}");
    }
    for (scaling, wanted) in [
        (json!({"type": "linear", "factor": 0}), "factor: is 0, wanted"),
        (json!({"type": "linear", "factor": -2}), "factor: is -2, wanted"),
        (
            json!({"type": "yarn", "factor": 2, "beta_fast": 1, "beta_slow": 2}),
            "beta_fast: is 1, below beta_slow, 2",
        ),
        (
            json!({"type": "yarn", "factor": 1e38, "mscale": 1e38, "mscale_all_dim": 2e-38}),
            "attention_factor: is absent, and",
        ),
    ] {
        let text = refusal("qwen3", json!({"rope_scaling": scaling}));
        assert!(text.contains(&format!("rope_scaling.{wanted}")), "{text}");
    }
    let from_one = json!({"original_max_position_embeddings": 1});
    let text = refusal("phi3-longrope", from_one);
    assert!(text.contains("attention_factor: is absent, and inf follows from"), "{text}");
}

/// As many layers as are read, of the largest sizes together that are: planned in numbers alone.
#[test]
fn made_up_weights_of_a_thousand_layers_are_planned() {
    let dir = tempfile::tempdir().unwrap();
    let mut root = config_of("llama");
    for (key, value) in
        [("num_hidden_layers", 1024), ("hidden_size", 32_768), ("intermediate_size", 131_072)]
    {
        put(&mut root, &[key.to_owned()], Some(json!(value)));
    }
    std::fs::write(dir.path().join("config.json"), root.to_string()).unwrap();
    let manifest = ModelManifest {
        weights: WeightOrigin::Synthetic { seed: 1, dtype: DType::F32 },
        ..ModelManifest::new("large", dir.path())
    };
    let contract = Checkpoint::open(&manifest).unwrap().contract.unwrap();
    assert_eq!(contract.semantic.layers.len(), 1024);
    // Gate, up and down alone.
    assert!(contract.parameters() > 1024 * 3 * 32_768 * 131_072);
}
