//! Where the routed feed-forwards of a family differ: experts, and how they are chosen.

use super::feed_forward::GatedMlpRules;
use crate::{
    config::{Geometry, Keys},
    semantic::{
        ExpertGroups, FeedForward, GatedMlpSpec, RoutedSpec, RouterScores, RouterSpec,
        SharedExpertSpec,
    },
};

/// How the feed-forwards of a decoder with experts are read.
#[derive(Clone, Copy, Debug)]
pub(super) struct RoutedRules {
    /// What the layers without experts have; its activation is the experts', too.
    pub dense: GatedMlpRules,
    /// Which of so many layers have no experts.
    pub is_dense: fn(&mut Keys<'_>, usize) -> Vec<bool>,
    /// The experts' numbers.
    pub experts: ExpertKeys,
    /// How they are chosen, from so many.
    pub router: fn(&mut Keys<'_>, usize) -> RouterSpec,
    /// What every token visits beside them: how many experts of the same width it is as wide as.
    pub shared: Option<(&'static str, usize)>,
}

/// The keys of the experts' numbers, and what their absence means.
#[derive(Clone, Copy, Debug)]
pub(super) struct ExpertKeys {
    /// How many there are.
    pub count: (&'static str, usize),
    /// How many of them a token visits.
    pub per_token: (&'static str, usize),
    /// The width of each.
    pub width: (&'static str, usize),
}

impl RoutedRules {
    /// Experts in every layer, chosen by a softmax whose highest are made to sum to 1.
    pub const SOFTMAX: RoutedRules = RoutedRules {
        dense: GatedMlpRules::SILU,
        is_dense: |_, layers| vec![false; layers],
        experts: ExpertKeys {
            count: ("num_local_experts", 8),
            per_token: ("num_experts_per_tok", 2),
            width: ("intermediate_size", 14_336),
        },
        router: |_, _| SOFTMAX,
        shared: None,
    };

    /// The feed-forward of each layer.
    pub fn read(&self, keys: &mut Keys<'_>, geometry: &Geometry) -> Vec<FeedForward> {
        let dense = self.dense.read(keys, geometry);
        let is_dense = (self.is_dense)(keys, geometry.layers);
        let experts = geometry.experts(keys, self.experts.count.0, self.experts.count.1);
        let per_token = self.per_token(keys, experts);
        let (width_key, default) = self.experts.width;
        let width = geometry.expert_width(keys, width_key, default, experts);
        let expert = GatedMlpSpec { intermediate_size: width, ..dense };
        let shared = self.shared.map(|(key, default)| SharedExpertSpec {
            mlp: GatedMlpSpec {
                intermediate_size: geometry.shared_width(keys, key, default, width),
                ..dense
            },
            gated: false,
        });
        let router = (self.router)(keys, experts);
        if let Some(ExpertGroups { count, kept }) = router.groups
            && kept * (experts / count) < per_token
        {
            let key = self.experts.per_token.0;
            let message = format!(
                "is {per_token}, but {kept} groups of {} experts are looked into",
                experts / count
            );
            keys.error(key, message);
        }
        let routed = RoutedSpec { experts, per_token, expert, router, shared };
        let layer = |is_dense| match is_dense {
            true => FeedForward::Dense(dense),
            false => FeedForward::Routed(routed),
        };
        is_dense.into_iter().map(layer).collect()
    }

    fn per_token(&self, keys: &mut Keys<'_>, experts: usize) -> usize {
        let (key, default) = self.experts.per_token;
        let per_token = keys.size(key, default.min(experts), usize::MAX);
        if per_token > experts {
            let count = self.experts.count.0;
            keys.error(key, format!("is {per_token}, but {count} is {experts}"));
            return experts;
        }
        per_token
    }
}

/// Softmax over all experts; the weights of the chosen sum to 1.
pub(super) const SOFTMAX: RouterSpec = RouterSpec {
    scores: RouterScores::Softmax,
    correction: false,
    groups: None,
    normalise: true,
    scale: 1.0,
};

/// DeepSeek V3's router: sigmoids, a learned correction, groups, a scale.
pub(super) fn corrected(keys: &mut Keys<'_>, experts: usize) -> RouterSpec {
    RouterSpec {
        scores: RouterScores::Sigmoid,
        correction: true,
        groups: groups(keys, experts),
        normalise: keys.flag("norm_topk_prob", true),
        scale: keys.positive("routed_scaling_factor", 1.0) as f32,
    }
}

/// `n_group` groups, of which `topk_group` are looked into; all of them are none.
fn groups(keys: &mut Keys<'_>, experts: usize) -> Option<ExpertGroups> {
    let count = keys.size("n_group", 1, usize::MAX);
    let kept = keys.size("topk_group", 1, usize::MAX);
    // The two best of a group are what it is compared by.
    if !experts.is_multiple_of(count) || experts / count < 2 {
        let message =
            format!("is {count}, which cuts {experts} experts into no groups of two or more");
        keys.error("n_group", message);
    } else if kept > count {
        keys.error("topk_group", format!("is {kept}, but n_group is {count}"));
    }
    (kept < count).then_some(ExpertGroups { count, kept })
}

/// The first `first_k_dense_replace` layers have no experts.
pub(super) fn first_layers_dense(keys: &mut Keys<'_>, layers: usize, default: usize) -> Vec<bool> {
    let first = keys.count("first_k_dense_replace", default, usize::MAX);
    (0..layers).map(|layer| layer < first).collect()
}
