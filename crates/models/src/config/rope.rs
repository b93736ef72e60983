//! Rotary position embedding, in every spelling that `config.json` has had for it.
//!
//! ```text
//! old                 "rope_theta": 5e5, "rope_scaling": {"type" or "rope_type": "llama3", "factor": 8.0, ...}
//! transformers 5      "rope_parameters": {"rope_theta": 5e5, "rope_type": "llama3", "factor": 8.0, ...}
//! by layer type       "rope_parameters": {"full_attention": {...}, "sliding_attention": {...}}
//! ```

use super::{
    Geometry,
    keys::{Keys, positive_number},
};
use crate::semantic::{RopeScaling, RopeSpec};

/// What a family says about its rotary embedding.
#[derive(Clone, Copy, Debug)]
pub struct RopeRules {
    /// Key of the root that holds theta in the old form.
    pub theta_key: &'static str,
    /// Theta if no key gives it.
    pub theta: f64,
    /// The family rotates only a part of each head if `partial_rotary_factor` says so; this is what its absence means.
    /// Elsewhere the oracle does not apply the factor, so that a value other than 1 has no defined meaning.
    pub partial: Option<f64>,
    /// Default of the root's `original_max_position_embeddings`, for the family that has one.
    pub original_max: Option<usize>,
    /// Names of `longrope` besides its own.
    pub longrope_aliases: &'static [&'static str],
}

impl RopeRules {
    /// The whole head rotated, `rope_theta` in the root, this default.
    pub const fn plain(theta: f64) -> Self {
        RopeRules {
            theta_key: "rope_theta",
            theta,
            partial: None,
            original_max: None,
            longrope_aliases: &[],
        }
    }
}

/// The rotary embedding that all layers share.
pub fn read(keys: &mut Keys<'_>, geometry: &Geometry, rules: &RopeRules) -> RopeSpec {
    let parameters = parameters(keys);
    spec(keys, parameters, geometry, rules)
}

/// The rotary embeddings of full and of sliding layers (Gemma 3). In the old form the scaling belongs to the full
/// layers alone: the sliding ones never look far.
pub fn read_by_layer_type(
    keys: &mut Keys<'_>,
    geometry: &Geometry,
    full: &RopeRules,
    sliding: &RopeRules,
) -> (RopeSpec, RopeSpec) {
    let parameters = parameters(keys);
    let nested = parameters.as_ref().is_some_and(|p| p.has(FULL) || p.has(SLIDING));
    if !nested {
        if keys.has("rope_parameters") {
            keys.error("rope_parameters", format!("has neither {FULL} nor {SLIDING}"));
        }
        return (spec(keys, parameters, geometry, full), spec(keys, None, geometry, sliding));
    }
    let mut parameters = parameters.expect("nested says that there are parameters");
    let of_full = parameters.object(FULL);
    let of_sliding = parameters.object(SLIDING);
    let specs = (spec(keys, of_full, geometry, full), spec(keys, of_sliding, geometry, sliding));
    keys.close(parameters);
    specs
}

const FULL: &str = "full_attention";
const SLIDING: &str = "sliding_attention";

/// The object with the scaling, under its new or its old name.
fn parameters<'a>(keys: &mut Keys<'a>) -> Option<Keys<'a>> {
    let new = keys.raw("rope_parameters").filter(|value| !value.is_null());
    let old = keys.raw("rope_scaling").filter(|value| !value.is_null());
    if let (Some(new), Some(old)) = (new, old)
        && new != old
    {
        keys.error("rope_scaling", "differs from rope_parameters, the newer name of the same key");
    }
    keys.object(if new.is_some() { "rope_parameters" } else { "rope_scaling" })
}

fn spec<'a>(
    keys: &mut Keys<'a>,
    parameters: Option<Keys<'a>>,
    geometry: &Geometry,
    rules: &RopeRules,
) -> RopeSpec {
    let theta_root = theta(keys, rules.theta_key, rules.theta);
    let partial_root = keys.positive("partial_rotary_factor", rules.partial.unwrap_or(1.0));
    let root_max = keys.nullable_size("original_max_position_embeddings", None, 1 << 30);
    let Some(mut parameters) = parameters else {
        let rotary_dim = rotary_dim(keys, geometry, rules, partial_root);
        return RopeSpec { theta: theta_root, rotary_dim, scaling: RopeScaling::None };
    };
    let theta = theta(&mut parameters, "rope_theta", theta_root);
    let partial = parameters.positive("partial_rotary_factor", partial_root);
    let rotary_dim = rotary_dim(&mut parameters, geometry, rules, partial);
    let original_max = original_max(&mut parameters, root_max.or(rules.original_max), geometry);
    let context = Context { max_positions: geometry.max_positions, original_max, rotary_dim };
    let scaling = scaling(&mut parameters, &context, rules);
    keys.close(parameters);
    RopeSpec { theta, rotary_dim, scaling }
}

/// At 1 all frequencies are the same, and logarithms of it divide by zero.
fn theta(keys: &mut Keys<'_>, key: &str, default: f64) -> f64 {
    let theta = keys.positive(key, default);
    if theta <= 1.0 {
        keys.error(key, format!("is {theta}, wanted a number above 1"));
        return default;
    }
    theta
}

fn rotary_dim(keys: &mut Keys<'_>, geometry: &Geometry, rules: &RopeRules, partial: f64) -> usize {
    let head_dim = geometry.head_dim;
    // A head of no pairs has its own finding.
    if partial == 1.0 {
        return head_dim;
    }
    if rules.partial.is_none() {
        let message = format!("is {partial}, but this family rotates whole heads");
        keys.error("partial_rotary_factor", message);
        return head_dim;
    }
    // Truncated, as the oracle's int() does.
    let rotary_dim = (head_dim as f64 * partial) as usize;
    if rotary_dim == 0 || rotary_dim > head_dim || !rotary_dim.is_multiple_of(2) {
        let message =
            format!("is {partial}, which rotates {rotary_dim} elements of head_dim, {head_dim}");
        keys.error("partial_rotary_factor", message);
        return head_dim;
    }
    rotary_dim
}

/// The context of the pre-training. The root's key wins over the scaling's own, as with the oracle; where the two
/// disagree nobody can tell which was meant.
fn original_max(keys: &mut Keys<'_>, root: Option<usize>, geometry: &Geometry) -> usize {
    const KEY: &str = "original_max_position_embeddings";
    let own = keys.nullable_size(KEY, None, 1 << 30);
    if let (Some(root), Some(own)) = (root, own)
        && root != own
    {
        keys.error(KEY, format!("is {own}, but outside of the rope parameters it is {root}"));
    }
    root.or(own).unwrap_or(geometry.max_positions)
}

struct Context {
    max_positions: usize,
    original_max: usize,
    rotary_dim: usize,
}

impl Context {
    /// By how much the context was extended, where no key says it.
    fn extension(&self) -> f64 {
        self.max_positions as f64 / self.original_max as f64
    }
}

/// Readers of the scaling types that are understood.
type ReadScaling = fn(&mut Keys<'_>, &Context) -> RopeScaling;
const SCALINGS: &[(&str, ReadScaling)] = &[
    ("default", |_, _| RopeScaling::None),
    ("linear", linear),
    ("llama3", llama3),
    ("yarn", yarn),
    ("longrope", longrope),
];

fn scaling(keys: &mut Keys<'_>, context: &Context, rules: &RopeRules) -> RopeScaling {
    let new = keys.text("rope_type");
    let old = keys.text("type");
    if let (Some(new), Some(old)) = (new, old)
        && new != old
    {
        keys.error("type", format!("is {old:?}, but rope_type is {new:?}"));
    }
    let mut name = new.or(old).unwrap_or("default");
    if rules.longrope_aliases.contains(&name) {
        name = "longrope";
    }
    if name == "dynamic" {
        // Its frequencies depend on the longest length reached so far: cached keys would mean something else at
        // each step. The oracle recomputes nothing either, so that its answer depends on the history.
        keys.error(
            "rope_type",
            "is \"dynamic\", which is not supported: its frequencies change with every token",
        );
        keys.inert(&["factor"]);
        return RopeScaling::None;
    }
    match SCALINGS.iter().find(|(known, _)| *known == name) {
        Some((_, read)) => read(keys, context),
        None => {
            let known: Vec<&str> = SCALINGS.iter().map(|(known, _)| *known).collect();
            keys.error("rope_type", format!("is {name:?}, known are {}", known.join(", ")));
            RopeScaling::None
        }
    }
}

fn linear(keys: &mut Keys<'_>, _: &Context) -> RopeScaling {
    RopeScaling::Linear { factor: keys.required_positive("factor") }
}

fn llama3(keys: &mut Keys<'_>, context: &Context) -> RopeScaling {
    let factor = keys.required_positive("factor");
    let low_freq_factor = keys.required_positive("low_freq_factor");
    let high_freq_factor = keys.required_positive("high_freq_factor");
    // Compared as it is computed with: equal ones would make the ramp between them a division by zero.
    if low_freq_factor as f32 >= high_freq_factor as f32 && !keys.has_errors() {
        let message =
            format!("is {low_freq_factor}, not below high_freq_factor, {high_freq_factor}");
        keys.error("low_freq_factor", message);
    }
    let original_max = context.original_max;
    RopeScaling::Llama3 { factor, low_freq_factor, high_freq_factor, original_max }
}

fn yarn(keys: &mut Keys<'_>, context: &Context) -> RopeScaling {
    let factor = keys.nullable_positive("factor", None).unwrap_or(context.extension());
    let mscale = keys.nullable_positive("mscale", None);
    let mscale_all_dim = keys.nullable_positive("mscale_all_dim", None);
    let magnitude = |scale: f64| if factor <= 1.0 { 1.0 } else { 0.1 * scale * factor.ln() + 1.0 };
    let suggested = match (mscale, mscale_all_dim) {
        (Some(numerator), Some(denominator)) => magnitude(numerator) / magnitude(denominator),
        _ => magnitude(1.0),
    };
    let beta_fast = keys.positive("beta_fast", 32.0);
    let beta_slow = keys.positive("beta_slow", 1.0);
    if beta_fast < beta_slow {
        keys.error("beta_fast", format!("is {beta_fast}, below beta_slow, {beta_slow}"));
    }
    RopeScaling::Yarn {
        factor,
        beta_fast,
        beta_slow,
        original_max: context.original_max,
        attention_factor: attention_factor(keys, suggested),
        truncate: keys.flag("truncate", true),
    }
}

fn longrope(keys: &mut Keys<'_>, context: &Context) -> RopeScaling {
    let pairs = context.rotary_dim / 2;
    let short = divisors(keys, "short_factor", pairs);
    let long = divisors(keys, "long_factor", pairs);
    let factor = keys.nullable_positive("factor", None).unwrap_or(context.extension());
    let suggested = if factor <= 1.0 {
        1.0
    } else {
        (1.0 + factor.ln() / (context.original_max as f64).ln()).sqrt()
    };
    RopeScaling::LongRope {
        short,
        long,
        original_max: context.original_max,
        attention_factor: attention_factor(keys, suggested),
    }
}

/// `attention_factor`, or the one that follows from the other keys.
fn attention_factor(keys: &mut Keys<'_>, suggested: f64) -> f64 {
    let factor = keys.positive("attention_factor", suggested);
    if !(factor as f32).is_normal() {
        let message = format!(
            "is absent, and {factor} follows from factor, mscale and original_max_position_embeddings"
        );
        keys.error("attention_factor", message);
        return 1.0;
    }
    factor
}

/// A list of `pairs` numbers above zero.
fn divisors(keys: &mut Keys<'_>, key: &str, pairs: usize) -> Vec<f64> {
    match keys.list(key, "a list of numbers above 0", positive_number) {
        Some(list) if list.len() == pairs => return list,
        Some(list) => {
            let found = list.len();
            let message = format!(
                "has {found} numbers, wanted {pairs}: one for each pair of rotated elements of a head \
                 (head_dim, or hidden_size / num_attention_heads)"
            );
            keys.error(key, message);
        }
        None if !keys.has(key) => keys.error(key, "is missing"),
        None => {}
    }
    vec![1.0; pairs]
}
