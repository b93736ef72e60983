//! Requests in chains: a chain is a conversation, whose turns follow one another. docs/performance.md says how long they are.

use fastrand::Rng;

use super::{token_ids, words};
use crate::args::Lengths;

/// System prompts that conversations share.
const SYSTEM_PROMPTS: usize = 4;
/// Turns of a conversation in the mean, and at most.
const MEAN_TURNS: f64 = 3.0;
const MAX_TURNS: usize = 8;
/// How widely the lengths of messages and of answers scatter: of their logarithms, the standard deviation.
const MESSAGE_SIGMA: f64 = 1.0;
const ANSWER_SIGMA: f64 = 0.8;
/// No message or answer is longer than so many medians.
const MAX_MEDIANS: f64 = 4.0;
/// A conversation ends before its prompt has more than so many medians.
const MAX_PROMPT_MEDIANS: usize = 16;

/// What requests look like.
#[derive(Clone, Copy, Debug)]
pub struct Shape {
    /// How lengths are spread.
    pub lengths: Lengths,
    /// Tokens (or words) of a prompt, of a message where there are conversations: exactly, in the mean or in the median.
    pub prompt_len: usize,
    /// The same of an answer.
    pub output_len: usize,
    /// What prompts are made of.
    pub vocabulary: Vocabulary,
}

/// What prompts are made of.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Vocabulary {
    /// Token ids below this.
    Ids(u32),
    /// Words that no vocabulary needs to know.
    Words,
}

/// A piece of a prompt.
#[derive(Clone, Debug, PartialEq)]
pub enum Content {
    /// Token ids.
    Ids(Vec<u32>),
    /// Words with a space between them.
    Words(String),
}

/// Who speaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// The one who sets the scene.
    System,
    /// The one who asks.
    User,
    /// The model.
    Assistant,
}

impl Role {
    /// As chats name it.
    pub fn name(self) -> &'static str {
        match self {
            Role::System => "system",
            Role::User => "user",
            Role::Assistant => "assistant",
        }
    }
}

/// A request.
#[derive(Clone, Debug, PartialEq)]
pub struct Item {
    /// The prompt in its pieces, the last one a user's.
    pub prompt: Vec<(Role, Content)>,
    /// Token ids or words of the whole prompt.
    pub prompt_units: usize,
    /// Tokens of the answer.
    pub output_tokens: usize,
}

/// `count` requests in chains.
pub fn chains(seed: u64, count: usize, shape: &Shape) -> Vec<Vec<Item>> {
    let mut rng = Rng::with_seed(seed);
    match shape.lengths {
        Lengths::Chat => conversations(&mut rng, count, shape),
        Lengths::Fixed => (0..count).map(|_| vec![single(&mut rng, shape, 0.0)]).collect(),
        Lengths::Random(ratio) => {
            (0..count).map(|_| vec![single(&mut rng, shape, ratio)]).collect()
        }
    }
}

/// A request that stands alone, its lengths within a part of those asked for.
fn single(rng: &mut Rng, shape: &Shape, ratio: f64) -> Item {
    let mut length = |mean: usize| {
        let spread = (mean as f64 * ratio).floor() as usize;
        rng.usize(mean - spread..=mean + spread).max(1)
    };
    let (prompt_units, output_tokens) = (length(shape.prompt_len), length(shape.output_len));
    let prompt = vec![(Role::User, content(rng, shape, prompt_units))];
    Item { prompt, prompt_units, output_tokens }
}

fn conversations(rng: &mut Rng, count: usize, shape: &Shape) -> Vec<Vec<Item>> {
    let systems: Vec<Content> =
        (0..SYSTEM_PROMPTS).map(|_| content(rng, shape, shape.prompt_len)).collect();
    let (mut chains, mut left) = (Vec::new(), count);
    while left > 0 {
        let system = systems[rng.usize(..SYSTEM_PROMPTS)].clone();
        let turns = turns(rng.f64()).min(left);
        let chain = conversation(rng, system, turns, shape);
        left -= chain.len();
        chains.push(chain);
    }
    chains
}

/// Each turn's prompt is the last one's, a made-up answer to it, and a new message.
fn conversation(rng: &mut Rng, system: Content, turns: usize, shape: &Shape) -> Vec<Item> {
    let mut prompt = vec![(Role::System, system)];
    let mut prompt_units = shape.prompt_len;
    let mut chain: Vec<Item> = Vec::new();
    for _ in 0..turns {
        let message = log_normal(rng, shape.prompt_len, MESSAGE_SIGMA);
        let answered = chain.last().map_or(0, |last| last.output_tokens);
        let longer = prompt_units + answered + message;
        if !chain.is_empty() && longer > MAX_PROMPT_MEDIANS * shape.prompt_len {
            break;
        }
        if answered > 0 {
            prompt.push((Role::Assistant, content(rng, shape, answered)));
        }
        prompt.push((Role::User, content(rng, shape, message)));
        prompt_units = longer;
        let output_tokens = log_normal(rng, shape.output_len, ANSWER_SIGMA);
        chain.push(Item { prompt: prompt.clone(), prompt_units, output_tokens });
    }
    chain
}

/// A geometric number from one that is even in [0, 1).
fn turns(even: f64) -> usize {
    let turns = 1.0 + ((1.0 - even).ln() / (1.0 - 1.0 / MEAN_TURNS).ln()).floor();
    (turns as usize).clamp(1, MAX_TURNS)
}

fn log_normal(rng: &mut Rng, median: usize, sigma: f64) -> usize {
    // Box and Muller's way to a normal number; 1 - f64() lies in (0, 1].
    let radius = (-2.0 * (1.0 - rng.f64()).ln()).sqrt();
    let normal = radius * (std::f64::consts::TAU * rng.f64()).cos();
    let length = median as f64 * (sigma * normal).exp();
    (length.round() as usize).clamp(1, (median as f64 * MAX_MEDIANS) as usize)
}

fn content(rng: &mut Rng, shape: &Shape, length: usize) -> Content {
    match shape.vocabulary {
        Vocabulary::Ids(vocabulary) => Content::Ids(token_ids(rng, length, vocabulary)),
        Vocabulary::Words => Content::Words(words(rng, length)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shape(lengths: Lengths) -> Shape {
        Shape { lengths, prompt_len: 40, output_len: 10, vocabulary: Vocabulary::Ids(1000) }
    }

    fn length(content: &Content) -> usize {
        match content {
            Content::Ids(ids) => ids.len(),
            Content::Words(words) => words.split(' ').count(),
        }
    }

    /// Every request's prompt is as long as it says, and there are `count` of them.
    fn sound(chains: &[Vec<Item>], count: usize) {
        assert_eq!(chains.iter().map(Vec::len).sum::<usize>(), count);
        for item in chains.iter().flatten() {
            let whole: usize = item.prompt.iter().map(|(_, content)| length(content)).sum();
            assert_eq!((whole, whole > 0, item.output_tokens > 0), (item.prompt_units, true, true));
            assert_eq!(item.prompt.last().unwrap().0, Role::User);
        }
    }

    #[test]
    fn the_seed_fixes_everything() {
        for lengths in [Lengths::Fixed, Lengths::Random(0.5), Lengths::Chat] {
            let made = chains(7, 30, &shape(lengths));
            sound(&made, 30);
            assert_eq!(made, chains(7, 30, &shape(lengths)));
            assert_ne!(made, chains(8, 30, &shape(lengths)));
            let words = Shape { vocabulary: Vocabulary::Words, ..shape(lengths) };
            sound(&chains(7, 30, &words), 30);
        }
    }

    #[test]
    fn random_lengths_fill_their_range_and_stay_in_it() {
        let made = chains(1, 2000, &shape(Lengths::Random(0.5)));
        let range = |of: fn(&Item) -> usize| {
            let all = made.iter().flatten().map(of);
            (all.clone().min().unwrap(), all.max().unwrap())
        };
        assert_eq!(range(|item| item.prompt_units), (20, 60));
        assert_eq!(range(|item| item.output_tokens), (5, 15));
    }

    #[test]
    fn a_turn_continues_the_one_before() {
        let made = chains(1, 200, &shape(Lengths::Chat));
        assert!(made.iter().any(|chain| chain.len() > 1));
        for pair in made.iter().flat_map(|chain| chain.windows(2)) {
            let (before, now) = (&pair[0].prompt, &pair[1].prompt);
            assert_eq!(now[..before.len()], before[..]);
            let roles: Vec<Role> = now[before.len()..].iter().map(|(role, _)| *role).collect();
            assert_eq!(roles, [Role::Assistant, Role::User]);
            assert_eq!(length(&now[before.len()].1), pair[0].output_tokens);
            assert!(pair[1].prompt_units <= MAX_PROMPT_MEDIANS * 40);
        }
        let mut systems: Vec<&Content> = made.iter().map(|chain| &chain[0].prompt[0].1).collect();
        systems.dedup();
        assert!(systems.len() > SYSTEM_PROMPTS, "they are mixed");
        let mut different = Vec::new();
        for system in systems {
            if !different.contains(&system) {
                different.push(system);
            }
        }
        assert_eq!(different.len(), SYSTEM_PROMPTS);
    }

    #[test]
    fn chat_lengths_have_their_medians_and_turns_their_mean() {
        let mut rng = Rng::with_seed(1);
        let mut lengths: Vec<usize> =
            (0..9999).map(|_| log_normal(&mut rng, 100, MESSAGE_SIGMA)).collect();
        lengths.sort_unstable();
        assert!(lengths[4999].abs_diff(100) < 5, "{}", lengths[4999]);
        // One standard deviation of the logarithm is a factor of e.
        assert!(lengths[8412].abs_diff(272) < 15, "{}", lengths[8412]);
        assert_eq!(lengths[9998], 400);
        assert_eq!((turns(0.0), turns(0.333), turns(0.334), turns(0.9999)), (1, 1, 2, MAX_TURNS));
    }
}
