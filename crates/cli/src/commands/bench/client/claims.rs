//! Whether what a server says of an answer can be true, and what is counted of it.

use super::{Ask, events::Usage};
use crate::commands::bench::trace::Trace;

/// Tokens that a server may put before a prompt of token ids (one that begins the text, say).
const MAX_ADDED_TOKENS: usize = 16;

/// Ends the count of an answer that is whole: by the server's own numbers, where they can be true; without such by the events
/// that came, as an estimate.
pub fn settle(ask: &Ask, usage: Option<Usage>, trace: &mut Trace) -> Result<(), String> {
    if !trace.has_begun() {
        return Err("the stream ended without a token".to_owned());
    }
    let Some(usage) = usage else {
        trace.prompt_tokens = ask.prompt_units;
        trace.is_estimated = true;
        return Ok(());
    };
    // Text that was held back (half a character, what may begin a stop string) comes in an event of its own at the end.
    if trace.texts() == usage.completion_tokens + 1 {
        trace.forget_tail();
    }
    let findings = impossible(ask, &usage, trace.texts());
    if !findings.is_empty() {
        return Err(format!("usage cannot be true: {}", findings.join("; ")));
    }
    trace.prompt_tokens = usage.prompt_tokens;
    trace.output_tokens = usage.completion_tokens;
    trace.cached_tokens = cached(&usage);
    trace.is_short = ask.is_exact && usage.completion_tokens < ask.output_tokens;
    Ok(())
}

fn cached(usage: &Usage) -> usize {
    usage.prompt_tokens_details.and_then(|details| details.cached_tokens).unwrap_or(0)
}

/// Everything in `usage` that contradicts what was asked for or the `texts` events with text that came.
fn impossible(ask: &Ask, usage: &Usage, texts: usize) -> Vec<String> {
    let Usage { prompt_tokens: prompt, completion_tokens: output, .. } = *usage;
    let (sent, wanted) = (ask.prompt_units, ask.output_tokens);
    let unit = if ask.is_ids { "token ids" } else { "words" };
    let mut findings = Vec::new();
    if output < texts {
        findings.push(format!("{output} output tokens, but text came in {texts} events"));
    }
    if output > wanted {
        findings.push(format!("{output} output tokens, but at most {wanted} were asked for"));
    }
    if prompt < sent {
        findings.push(format!("{prompt} prompt tokens, but {sent} {unit} were sent"));
    }
    if ask.is_ids && prompt > sent + MAX_ADDED_TOKENS {
        findings.push(format!("{prompt} prompt tokens, but only {sent} token ids were sent"));
    }
    if cached(usage) > prompt {
        findings.push(format!("{} cached tokens of a prompt of {prompt}", cached(usage)));
    }
    findings
}

#[cfg(test)]
mod tests {
    use hyper::body::Bytes;

    use super::*;
    use crate::commands::bench::client::events::PromptDetails;

    fn ask() -> Ask {
        let (path, body) = ("/v1/completions", Bytes::new());
        Ask { path, body, prompt_units: 20, is_ids: true, output_tokens: 8, is_exact: true }
    }

    fn usage(prompt_tokens: usize, completion_tokens: usize, cached: usize) -> Usage {
        let prompt_tokens_details = Some(PromptDetails { cached_tokens: Some(cached) });
        Usage { prompt_tokens, completion_tokens, prompt_tokens_details }
    }

    /// An answer whose text came in so many events.
    fn trace(texts: usize) -> Trace {
        let mut trace = Trace::start();
        (0..texts).for_each(|_| trace.tick(1));
        trace
    }

    #[test]
    fn every_impossible_number_is_told() {
        for (claim, texts, words) in [
            (usage(20, 2, 0), 4, vec!["2 output tokens", "4 events"]),
            (usage(20, 9, 0), 4, vec!["9 output tokens", "at most 8"]),
            (usage(19, 8, 0), 4, vec!["19 prompt tokens", "20 token ids"]),
            (usage(2000, 8, 0), 4, vec!["2000 prompt tokens"]),
            (usage(20, 8, 21), 4, vec!["21 cached"]),
            (usage(3, 900, 4), 4, vec!["3 prompt", "900 output", "4 cached"]),
        ] {
            let told = settle(&ask(), Some(claim), &mut trace(texts)).unwrap_err();
            assert!(words.iter().all(|word| told.contains(word)), "{told}");
        }
    }

    #[test]
    fn what_can_be_true_is_counted_and_short_answers_are_marked() {
        for (output, is_short) in [(8, false), (5, true)] {
            let mut trace = trace(5);
            settle(&ask(), Some(usage(21, output, 16)), &mut trace).unwrap();
            assert_eq!((trace.prompt_tokens, trace.output_tokens), (21, output));
            assert_eq!((trace.is_short, trace.is_estimated), (is_short, false));
            assert_eq!(trace.cached_tokens, 16);
        }
        let mut trace = trace(5);
        let may_end = Ask { is_exact: false, ..ask() };
        settle(&may_end, Some(usage(20, 5, 0)), &mut trace).unwrap();
        assert!(!trace.is_short, "an answer that may end is whole where it ends");
    }

    #[test]
    fn text_that_was_held_back_until_the_end_is_no_token() {
        let claim = usage(20, 8, 0);
        let mut held_back = trace(9);
        settle(&ask(), Some(claim), &mut held_back).unwrap();
        assert_eq!((held_back.texts(), held_back.output_tokens), (8, 8));
        assert!(settle(&ask(), Some(claim), &mut trace(10)).is_err());
    }

    #[test]
    fn without_usage_the_counts_are_an_estimate() {
        let mut trace = trace(5);
        settle(&ask(), None, &mut trace).unwrap();
        assert_eq!((trace.prompt_tokens, trace.output_tokens), (20, 5));
        assert!(trace.is_estimated && !trace.is_short);
        let told = settle(&ask(), Some(usage(20, 8, 0)), &mut Trace::start()).unwrap_err();
        assert!(told.contains("without a token"), "{told}");
    }
}
