//! Measures what speculation brings where a text repeats itself: tokens a verification, and time a token, with and without.
//!
//! ```text
//! cargo run --release -p tokenmill --example speculation -- [MODEL | --synthetic CONFIG_DIR] [LENGTH]
//! ```
//!
//! The prompt tells the beginning of a story that the model told before; where weights are made up, it says a stretch of made-up tokens
//! again and again, `LENGTH` tokens in all (256). The built-in model is measured if none is named. Greedy, 192 tokens each, for 1, 4 and 16 users at a time.

#![allow(clippy::print_stdout)]

use std::error::Error;

use tokenmill::{
    ChatMessage, ChatOptions, ChatRequest, DType, GenerateOptions, Library, LibraryOptions, Model,
    ModelOptions, Speculation, TokenId, options::SyntheticWeights,
};

/// Tokens of an answer.
const ANSWER: u32 = 192;
/// Users at a time.
const USERS: [usize; 3] = [1, 4, 16];
/// Tokens of the stretch that a made-up prompt repeats.
const STRETCH: usize = 48;

type Outcome<T = ()> = Result<T, Box<dyn Error>>;

fn main() -> Outcome {
    let mut arguments: Vec<String> = std::env::args().skip(1).collect();
    let length = arguments.last().and_then(|word| word.parse().ok());
    arguments.truncate(arguments.len() - usize::from(length.is_some()));
    let synthetic = arguments.iter().any(|word| word == "--synthetic");
    let reference = arguments.last().map_or("demo", String::as_str);
    for speculation in [Speculation::Off, Speculation::Ngram] {
        let library = Library::new(LibraryOptions::default())?;
        let options = ModelOptions {
            speculation: Some(speculation),
            prefix_cache: Some(false),
            max_sequence_tokens: length.map(|length: usize| length + ANSWER as usize + 64),
            synthetic: synthetic.then_some(SyntheticWeights { seed: 7, dtype: DType::BF16 }),
            ..ModelOptions::default()
        };
        let model = library.load(reference, options, &mut |_| true)?;
        let prompt = match synthetic {
            true => repetition(length.unwrap_or(256)),
            false => told_story(&model)?,
        };
        answers(&model, &prompt, 1)?;
        for users in USERS {
            report(&model, &prompt, users, speculation)?;
        }
    }
    Ok(())
}

/// Serves so many users at once, and prints what it took.
fn report(model: &Model, prompt: &[TokenId], users: usize, speculation: Speculation) -> Outcome {
    let before = model.metrics();
    let seconds = answers(model, prompt, users)?;
    let after = model.metrics();
    let [drafts, guesses, accepted, steps] = [
        after.drafts - before.drafts,
        after.draft_tokens - before.draft_tokens,
        after.accepted_tokens - before.accepted_tokens,
        after.steps - before.steps,
    ];
    println!(
        r#"{{"speculation": "{}", "users": {users}, "prompt": {}, "ms_per_token": {:.4}, "steps": {steps}, "guesses": {guesses}, "accepted": {accepted}, "tokens_a_verification": {:.2}}}"#,
        speculation.name(),
        prompt.len(),
        seconds * 1e3 / f64::from(ANSWER),
        1.0 + accepted as f64 / drafts.max(1) as f64,
    );
    Ok(())
}

/// Seconds from a user's first token to the last, on average: prompts do not count.
fn answers(model: &Model, prompt: &[TokenId], users: usize) -> Outcome<f64> {
    let before = model.metrics().inter_token_latency.sum;
    let generations = (0..users).map(|_| {
        let options = GenerateOptions {
            temperature: Some(0.0),
            max_tokens: Some(ANSWER),
            ignore_eos: true,
            ..GenerateOptions::default()
        };
        model.generate(prompt.to_vec(), options)
    });
    let generations = generations.collect::<Result<Vec<_>, _>>()?;
    for generation in generations {
        generation.output()?;
    }
    Ok((model.metrics().inter_token_latency.sum - before) / users as f64)
}

/// A story, its beginning again.
fn told_story(model: &Model) -> Outcome<Vec<TokenId>> {
    let content = "Write a story about an owl called Bruno.";
    let messages = vec![ChatMessage::new("user", content)];
    let mut tokens =
        model.render_chat(&ChatRequest { messages, options: ChatOptions::default() })?;
    let options =
        GenerateOptions { temperature: Some(0.0), max_tokens: Some(250), ..Default::default() };
    let story = model.generate(tokens.clone(), options)?.output()?.choices.remove(0).tokens;
    let beginning = [&tokens[..], &story[..story.len().min(40)]].concat();
    tokens.extend(story);
    tokens.extend(beginning);
    Ok(tokens)
}

/// Made-up tokens, again and again.
fn repetition(length: usize) -> Vec<TokenId> {
    (0..length).map(|at| TokenId((at % STRETCH * 7919 % 30_000) as u32 + 100)).collect()
}
