//! Routing: which experts a token visits, and how much each of them counts.
//!
//! The formulas are those of [`RouterSpec`]. Of equal scores the lower number wins, so that a token's experts depend on its own
//! scores alone.

use models::semantic::{ExpertGroups, RouterScores, RouterSpec};

use super::exp::{exp, sigmoid};

/// One expert that a token visits.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Visit {
    /// Which one.
    pub expert: u32,
    /// What its output is multiplied by.
    pub weight: f32,
}

/// Chooses `visits.len()` experts, the best first; the groups that are looked into have as many. `scores` holds the router's
/// outputs, one an expert, and is used up; `ranks` is room for as many numbers.
pub fn route(
    spec: &RouterSpec,
    correction: Option<&[f32]>,
    scores: &mut [f32],
    ranks: &mut [f32],
    visits: &mut [Visit],
) {
    match spec.scores {
        RouterScores::Softmax => softmax(scores),
        RouterScores::Sigmoid => scores.iter_mut().for_each(|score| *score = sigmoid(*score)),
    }
    ranks.copy_from_slice(scores);
    if let Some(correction) = correction {
        ranks.iter_mut().zip(correction).for_each(|(rank, correction)| *rank += correction);
    }
    // From here on minus infinity means "out": an expert whose rank is no number comes last, and not twice.
    let comparable = |rank: f32| if rank > f32::MIN { rank } else { f32::MIN };
    ranks.iter_mut().for_each(|rank| *rank = comparable(*rank));
    if let Some(groups) = spec.groups {
        leave_groups_out(groups, ranks);
    }
    for visit in visits.iter_mut() {
        let best = first_best(ranks);
        *visit = Visit { expert: best as u32, weight: scores[best] };
        ranks[best] = f32::NEG_INFINITY;
    }
    // As the oracle guards a sum of nothing.
    let sum: f32 = visits.iter().map(|visit| visit.weight).sum::<f32>() + 1e-20;
    let factor = if spec.normalise { spec.scale / sum } else { spec.scale };
    visits.iter_mut().for_each(|visit| visit.weight *= factor);
}

fn softmax(scores: &mut [f32]) {
    let top = scores.iter().copied().fold(f32::NEG_INFINITY, f32::max);
    scores.iter_mut().for_each(|score| *score = exp(*score - top));
    let sum: f32 = scores.iter().sum();
    scores.iter_mut().for_each(|score| *score /= sum);
}

/// Of the groups that are not among the best, no expert can win.
fn leave_groups_out(groups: ExpertGroups, ranks: &mut [f32]) {
    let size = ranks.len() / groups.count;
    for _ in groups.kept..groups.count {
        let strength = |group: &[f32]| match group.first() {
            Some(rank) if *rank == f32::NEG_INFINITY => f32::INFINITY,
            _ => two_best(group),
        };
        // Of equals the last goes, so that the first stays.
        let weakest = (0..groups.count).rev().min_by(|a, b| {
            let at = |group: &usize| strength(&ranks[group * size..][..size]);
            at(a).total_cmp(&at(b))
        });
        let weakest = weakest.expect("there are groups");
        ranks[weakest * size..][..size].fill(f32::NEG_INFINITY);
    }
}

/// Sum of the two highest.
fn two_best(ranks: &[f32]) -> f32 {
    let (mut first, mut second) = (f32::NEG_INFINITY, f32::NEG_INFINITY);
    for rank in ranks {
        if *rank > first {
            (first, second) = (*rank, first);
        } else if *rank > second {
            second = *rank;
        }
    }
    first + second
}

/// Index of the highest, of equals the first.
fn first_best(ranks: &[f32]) -> usize {
    let better = |best, index| if ranks[index] > ranks[best] { index } else { best };
    (1..ranks.len()).fold(0, better)
}

#[cfg(test)]
mod tests {
    use super::*;

    const SOFTMAX: RouterSpec = RouterSpec {
        scores: RouterScores::Softmax,
        correction: false,
        groups: None,
        normalise: false,
        scale: 1.0,
    };

    fn routed(
        spec: RouterSpec,
        correction: Option<&[f32]>,
        outputs: &[f32],
        count: usize,
    ) -> Vec<(u32, f32)> {
        let mut visits = vec![Visit::default(); count];
        let mut ranks = vec![0.0; outputs.len()];
        route(&spec, correction, &mut outputs.to_vec(), &mut ranks, &mut visits);
        visits.iter().map(|visit| (visit.expert, visit.weight)).collect()
    }

    fn assert_close(seen: &[(u32, f32)], wanted: &[(u32, f32)]) {
        assert_eq!(seen.len(), wanted.len());
        for (seen, wanted) in seen.iter().zip(wanted) {
            assert!(seen.0 == wanted.0 && (seen.1 - wanted.1).abs() < 1e-6, "{seen:?}, {wanted:?}");
        }
    }

    #[test]
    fn the_highest_of_a_softmax_win() {
        let outputs = [2.0f32.ln(), 5.0f32.ln(), 1.0f32.ln(), 2.0f32.ln()];
        assert_close(&routed(SOFTMAX, None, &outputs, 2), &[(1, 0.5), (0, 0.2)]);
        let normal = RouterSpec { normalise: true, scale: 3.0, ..SOFTMAX };
        assert_close(&routed(normal, None, &outputs, 2), &[(1, 15.0 / 7.0), (0, 6.0 / 7.0)]);
        assert_close(&routed(SOFTMAX, None, &[1.0; 4], 3), &[(0, 0.25), (1, 0.25), (2, 0.25)]);
    }

    #[test]
    fn a_correction_chooses_but_does_not_count() {
        let spec = RouterSpec { scores: RouterScores::Sigmoid, correction: true, ..SOFTMAX };
        let seen = routed(spec, Some(&[0.0, 0.0, 5.0]), &[0.0, 1.0, -1.0], 2);
        assert_close(&seen, &[(2, sigmoid(-1.0)), (1, sigmoid(1.0))]);
        // Also one that makes everything negative.
        let seen = routed(spec, Some(&[-7.0, -9.0, -8.0]), &[0.0; 3], 3);
        assert_close(&seen, &[(0, 0.5), (2, 0.5), (1, 0.5)]);
    }

    #[test]
    fn the_best_expert_of_a_weak_group_loses() {
        let groups = Some(ExpertGroups { count: 3, kept: 2 });
        let spec = RouterSpec { scores: RouterScores::Sigmoid, groups, ..SOFTMAX };
        // Group 1 has the best of all, and the lowest sum of two.
        let outputs = [1.0, 1.0, 2.0, -9.0, 1.5, 0.9];
        let seen = routed(spec, None, &outputs, 4);
        let experts: Vec<u32> = seen.iter().map(|visit| visit.0).collect();
        assert_eq!(experts, [4, 0, 1, 5]);
        let seen = routed(spec, None, &[0.0; 6], 2);
        assert_eq!([seen[0].0, seen[1].0], [0, 1], "of equal groups the first stay");
    }

    #[test]
    fn numbers_that_are_none_still_give_different_experts() {
        let mut seen: Vec<u32> = routed(SOFTMAX, None, &[f32::NAN, 1.0, f32::NAN, 2.0], 3)
            .iter()
            .map(|visit| visit.0)
            .collect();
        seen.sort_unstable();
        seen.dedup();
        assert_eq!(seen.len(), 3);
        assert_eq!(routed(SOFTMAX, None, &[5.0], 1), [(0, 1.0)]);
    }
}
