//! Every fixture through the library: goldens, and equalities of a model with itself.

#![allow(clippy::unwrap_used, reason = "helpers of tests")]

use testkit::golden::{Golden, fixture_directory, fixture_names};
use tokenmill::{
    Bytes, Error, FinishReason, GenerateOptions, GenerationEvent, Library, LibraryOptions, Model,
    ModelOptions, Output, SessionOptions, StopReason, TokenId, options::SyntheticWeights,
};

fn library() -> Library {
    Library::new(LibraryOptions::default()).unwrap()
}

fn load_with(name: &str, options: ModelOptions) -> Model {
    let directory = fixture_directory(name);
    let kv_memory = Some(Bytes::mib(64));
    let options = ModelOptions { kv_memory, ..options };
    library().load(directory.to_str().unwrap(), options, &mut |_| true).unwrap()
}

fn load(name: &str) -> Model {
    load_with(name, ModelOptions::default())
}

/// Greedy, to the end of `max_tokens`.
fn greedy(max_tokens: u32) -> GenerateOptions {
    GenerateOptions {
        temperature: Some(0.0),
        repetition_penalty: Some(1.0),
        max_tokens: Some(max_tokens),
        ignore_eos: true,
        ..GenerateOptions::default()
    }
}

fn run(model: &Model, prompt: &[TokenId], options: &GenerateOptions) -> Output {
    model.generate(prompt, options.clone()).unwrap().output().unwrap()
}

fn tokens(model: &Model, prompt: &[TokenId], options: &GenerateOptions) -> Vec<TokenId> {
    run(model, prompt, options).choices.remove(0).tokens
}

/// A prompt of `length` tokens that no fixture's special tokens occur in.
fn prompt(length: usize, salt: u32) -> Vec<TokenId> {
    (0..length as u32).map(|i| TokenId((i * 37 + salt * 101) % 400)).collect()
}

#[test]
fn greedy_continuations_equal_the_reference() {
    for name in fixture_names() {
        let model = load(&name);
        for (index, golden) in Golden::read(&name).prompts.iter().enumerate() {
            let seen = tokens(&model, &golden.input_ids, &greedy(golden.greedy_ids.len() as u32));
            assert_eq!(seen, golden.greedy_ids, "{name}, prompt {index}");
        }
    }
}

#[test]
fn a_request_is_the_same_alone_and_beside_fifteen_others() {
    let model =
        load_with("gemma3", ModelOptions { prefix_cache: Some(false), ..ModelOptions::default() });
    let requests: Vec<(Vec<TokenId>, GenerateOptions)> = (0..16u32)
        .map(|i| {
            let options = GenerateOptions {
                temperature: Some(if i % 3 == 0 { 0.0 } else { 0.9 }),
                top_p: Some(0.95),
                top_k: Some(if i % 2 == 0 { 0 } else { 30 }),
                frequency_penalty: Some((i % 4) as f32 * 0.2),
                seed: Some(u64::from(i)),
                logprobs: (i % 5 == 0).then_some(3),
                ..greedy(8 + i)
            };
            (prompt(3 + 7 * i as usize, i), options)
        })
        .collect();
    let alone: Vec<Output> = requests.iter().map(|(p, o)| run(&model, p, o)).collect();
    let together: Vec<_> = requests
        .iter()
        .map(|(prompt, options)| model.generate(prompt.as_slice(), options.clone()).unwrap())
        .collect();
    for (index, (generation, alone)) in together.into_iter().zip(alone).enumerate() {
        assert_eq!(generation.output().unwrap(), alone, "request {index}");
    }
}

#[test]
fn a_prompt_in_chunks_is_the_same_as_a_whole_one() {
    for name in ["llama", "gemma2", "phi3-longrope"] {
        let whole = load(name);
        let options = ModelOptions { max_step_tokens: Some(16), ..ModelOptions::default() };
        let chunked = load_with(name, options);
        for length in [1, 15, 16, 17, 100] {
            let (prompt, options) = (prompt(length, 1), greedy(6));
            let seen = tokens(&chunked, &prompt, &options);
            assert_eq!(seen, tokens(&whole, &prompt, &options), "{name}, {length} tokens");
        }
    }
}

#[test]
fn a_cached_prompt_gives_the_same_as_a_cold_one_at_every_length() {
    for name in ["qwen3-tied", "gemma3"] {
        let cold =
            load_with(name, ModelOptions { prefix_cache: Some(false), ..ModelOptions::default() });
        let warm = load(name);
        let mut cached = 0;
        for length in 1..=130 {
            let prompt = prompt(length, 3);
            let options = greedy(3);
            let expected = tokens(&cold, &prompt, &options);
            let seen = run(&warm, &prompt, &options);
            cached += seen.usage.cached_tokens;
            assert_eq!(seen.choices[0].tokens, expected, "{name}, {length} tokens");
        }
        assert!(cached > 0, "{name}: no prompt was ever found in the cache");
    }
}

#[test]
fn the_same_seed_gives_the_same_text_and_another_another() {
    let model = load("llama");
    let options =
        GenerateOptions { seed: Some(7), n: Some(3), temperature: Some(1.0), ..greedy(12) };
    let first = run(&model, &prompt(9, 0), &options);
    let again = run(&model, &prompt(9, 0), &options);
    assert_eq!(first.choices, again.choices);
    assert_ne!(first.choices[0].tokens, first.choices[1].tokens);
    let second = GenerateOptions { seed: Some(8), n: Some(1), ..options };
    assert_eq!(run(&model, &prompt(9, 0), &second).choices[0], first.choices[1]);
}

#[test]
fn the_streamed_text_is_the_whole_text() {
    for name in fixture_names() {
        let model = load(&name);
        let prompt = prompt(5, 2);
        let options = GenerateOptions { skip_special_tokens: Some(false), ..greedy(24) };
        let whole = run(&model, &prompt, &options).choices.remove(0);
        let (mut text, mut seen) = (String::new(), Vec::new());
        for event in model.generate(prompt.as_slice(), options).unwrap() {
            if let GenerationEvent::Delta { text: piece, tokens, .. } = event.unwrap() {
                text.push_str(&piece);
                seen.extend(tokens);
            }
        }
        assert_eq!(Some(&text), whole.text.as_ref(), "{name}");
        assert_eq!(text, model.detokenize(&seen, false).unwrap(), "{name}");
    }
}

#[test]
fn a_stop_string_cuts_the_text_and_is_named() {
    let model = load("llama");
    let prompt = prompt(5, 2);
    let whole = run(&model, &prompt, &greedy(24)).choices.remove(0).text.unwrap();
    let stop: String = whole.chars().skip(4).take(3).collect();
    let options = GenerateOptions { stop: vec!["\u{1}never".into(), stop.clone()], ..greedy(24) };
    let cut = whole.find(&stop).unwrap();
    let seen = run(&model, &prompt, &options).choices.remove(0);
    assert_eq!(seen.text.as_deref(), Some(&whole[..cut]));
    assert_eq!(seen.finish_reason, FinishReason::Stop);
    assert_eq!(seen.stop_reason, Some(StopReason::Text(stop.clone())));
    let options = GenerateOptions { include_stop_str_in_output: true, ..options };
    let seen = run(&model, &prompt, &options).choices.remove(0);
    assert_eq!(seen.text.as_deref(), Some(&whole[..cut + stop.len()]));
}

#[test]
fn a_stop_token_ends_the_text_and_is_named() {
    let model = load("llama");
    let prompt = prompt(5, 2);
    let whole = tokens(&model, &prompt, &greedy(8));
    let stop = whole[3];
    let first = whole.iter().position(|&token| token == stop).unwrap();
    let options = GenerateOptions { stop_token_ids: vec![stop], ..greedy(8) };
    let seen = run(&model, &prompt, &options).choices.remove(0);
    assert_eq!(seen.tokens, whole[..=first]);
    assert_eq!(seen.stop_reason, Some(StopReason::Token(stop)));
    assert_eq!(seen.text.as_deref(), model.detokenize(&whole[..first], true).ok().as_deref());
}

/// Where a stop string cuts a text that comes in `pieces`, worked out plainly: it counts if it ends behind the first
/// `min_tokens` of them. Bytes left, and tokens taken.
fn cut(pieces: &[String], stop: &str, min_tokens: usize) -> Option<(usize, usize)> {
    let length = |tokens: usize| pieces[..tokens].concat().len();
    let text = pieces.concat();
    let starts = (0..text.len()).filter(|at| text.is_char_boundary(*at));
    let start = starts
        .filter(|at| text[*at..].starts_with(stop))
        .find(|at| at + stop.len() > length(min_tokens.min(pieces.len())))?;
    let tokens = (1..=pieces.len()).find(|tokens| length(*tokens) >= start + stop.len())?;
    Some((start, tokens))
}

#[test]
fn a_stop_string_counts_if_it_ends_behind_min_tokens() {
    let model = load("llama");
    let prompt = prompt(5, 2);
    let pieces: Vec<String> = model
        .generate(prompt.as_slice(), greedy(16))
        .unwrap()
        .into_iter()
        .filter_map(|event| match event.unwrap() {
            GenerationEvent::Delta { text, .. } => Some(text),
            _ => None,
        })
        .collect();
    let whole = pieces.concat();
    let chars: Vec<char> = whole.chars().collect();
    let (mut cuts, mut passed_by) = (0, 0);
    for (min_tokens, length) in [0, 1, 4, 7, 12, 16].into_iter().flat_map(|m| [(m, 1), (m, 4)]) {
        for first in (0..chars.len() - length).step_by(3) {
            let stop: String = chars[first..first + length].iter().collect();
            let options = GenerateOptions {
                stop: vec![stop.clone()],
                min_tokens: Some(min_tokens as u32),
                ..greedy(16)
            };
            let seen = run(&model, &prompt, &options);
            let (choice, tokens) = (&seen.choices[0], seen.usage.completion_tokens);
            let (text, want, reason) = match cut(&pieces, &stop, min_tokens) {
                Some((at, tokens)) => (&whole[..at], tokens, FinishReason::Stop),
                None => (&whole[..], 16, FinishReason::Length),
            };
            let seen = (choice.text.as_deref(), tokens, choice.finish_reason);
            assert_eq!(seen, (Some(text), want, reason), "{stop:?} behind {min_tokens}");
            cuts += usize::from(reason == FinishReason::Stop);
            passed_by += usize::from(reason == FinishReason::Length);
        }
    }
    assert!(cuts > 10 && passed_by > 10, "{cuts} texts were cut, {passed_by} were not");
}

#[test]
fn before_min_tokens_neither_stop_strings_nor_stop_tokens_end_a_text() {
    let model = load("llama");
    let free = run(&model, &prompt(5, 2), &greedy(16)).choices.remove(0);
    let stop = free.text.unwrap().chars().take(2).collect();
    let options = GenerateOptions {
        stop: vec![stop],
        stop_token_ids: vec![free.tokens[2]],
        min_tokens: Some(9),
        ..greedy(16)
    };
    let seen = run(&model, &prompt(5, 2), &options).choices.remove(0);
    assert!(seen.tokens.len() > 9, "{seen:?}");
    assert!(!seen.tokens[..9].contains(&free.tokens[2]), "{seen:?}");
}

#[test]
fn a_text_that_cannot_fit_is_refused_before_it_is_tokenized() {
    let model = load("qwen3");
    let text = "né wo rd ".repeat(3 << 20);
    let error = model.generate(text.as_str(), greedy(7)).unwrap_err();
    let Error::ContextLengthExceeded { tokens, requested: 7, limit, counted: false } = error else {
        panic!("{error}")
    };
    assert!(tokens > limit && tokens <= text.len(), "{tokens}");
    let message = error.to_string();
    let want =
        format!("but at least {} were requested: at least {tokens} of the prompt", tokens + 7);
    assert!(message.contains(&want), "{message}");
    let chat = model.chat(vec![tokenmill::ChatMessage::user(text)], Default::default(), greedy(7));
    assert!(matches!(chat, Err(Error::ContextLengthExceeded { counted: false, .. })), "{chat:?}");
    // One that may fit is counted.
    let words = "né wo rd ".repeat(limit / 3);
    let error = model.generate(words, greedy(7)).unwrap_err();
    assert!(matches!(error, Error::ContextLengthExceeded { counted: true, .. }), "{error}");
}

#[test]
fn logprobs_name_tokens_and_their_bytes() {
    let model = load("qwen2");
    let options = GenerateOptions { logprobs: Some(2), prompt_logprobs: Some(1), ..greedy(4) };
    let output = run(&model, &prompt(6, 0), &options);
    let choice = &output.choices[0];
    assert_eq!(choice.logprobs.len(), 4);
    for (row, token) in choice.logprobs.iter().zip(&choice.tokens) {
        assert_eq!((row.token, row.rank, row.top.len()), (*token, 1, 2));
        assert_eq!((row.top[0].token, row.top[0].logprob), (row.token, row.logprob));
        assert!(!row.bytes.is_empty());
    }
    let rows = output.prompt_logprobs.unwrap();
    assert_eq!((rows.len(), rows[0].is_none(), rows[5].is_some()), (6, true, true));
}

#[test]
fn cancelling_ends_a_generation_with_what_it_has() {
    let model = load("llama");
    let mut generation = model.generate(prompt(5, 0), greedy(3000)).unwrap();
    let token = generation.cancellation_token();
    let mut reason = None;
    while let Some(event) = generation.next_blocking() {
        match event.unwrap() {
            GenerationEvent::Delta { .. } => token.cancel(),
            GenerationEvent::Finished { reason: seen, .. } => reason = Some(seen),
            GenerationEvent::Prompt { .. } => {}
        }
    }
    assert_eq!(reason, Some(FinishReason::Cancelled));
}

#[test]
fn a_stream_gives_the_same_events() {
    use futures::StreamExt;
    let model = load("llama");
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    let events = |generation| -> Vec<GenerationEvent> {
        runtime.block_on(
            StreamExt::map(generation, |event: tokenmill::Result<_>| event.unwrap()).collect(),
        )
    };
    let options = GenerateOptions { n: Some(1), ..greedy(10) };
    let streamed = events(model.generate(prompt(5, 0), options.clone()).unwrap());
    assert!(matches!(streamed[0], GenerationEvent::Prompt { .. }));
    let deltas = streamed
        .iter()
        .filter(|e| matches!(e, GenerationEvent::Delta { tokens, .. } if !tokens.is_empty()));
    assert_eq!(deltas.count(), 10);
    assert!(matches!(streamed.last(), Some(GenerationEvent::Finished { .. })));
}

#[test]
fn refusals_name_the_field_and_both_numbers() {
    let model = load_with(
        "llama",
        ModelOptions { max_sequence_tokens: Some(64), ..ModelOptions::default() },
    );
    let refuse = |prompt: Vec<TokenId>, options| model.generate(prompt, options).unwrap_err();
    let long = refuse(prompt(64, 0), GenerateOptions::default());
    assert!(
        matches!(
            long,
            Error::ContextLengthExceeded { tokens: 64, requested: 1, limit: 64, counted: true }
        ),
        "{long}"
    );
    let much = refuse(prompt(60, 0), greedy(5));
    assert!(
        matches!(
            much,
            Error::ContextLengthExceeded { tokens: 60, requested: 5, limit: 64, counted: true }
        ),
        "{much}"
    );
    let strange = refuse(vec![TokenId(1), TokenId(99_999)], greedy(1)).to_string();
    assert_eq!(strange, "prompt[1]: token id 99999 is not below 512, the size of the vocabulary");
    assert!(refuse(Vec::new(), greedy(1)).to_string().starts_with("prompt: "));
}

#[test]
fn a_checkpoint_without_a_tokenizer_takes_and_gives_token_ids() {
    let directory = tempfile::tempdir().unwrap();
    let source = fixture_directory("llama-tied");
    for file in ["config.json", "model.safetensors"] {
        std::fs::copy(source.join(file), directory.path().join(file)).unwrap();
    }
    let path = directory.path().to_str().unwrap();
    let model = library().load(path, ModelOptions::default(), &mut |_| true).unwrap();
    let golden = &Golden::read("llama-tied").prompts[0];
    let output = run(&model, &golden.input_ids, &greedy(24));
    assert_eq!((&output.choices[0].tokens, &output.choices[0].text), (&golden.greedy_ids, &None));
    let text = model.generate("hello", greedy(1)).unwrap_err();
    assert!(matches!(text, Error::NoTokenizer { .. }), "{text}");
}

#[test]
fn a_chat_without_a_template_names_the_flag() {
    let directory = tempfile::tempdir().unwrap();
    let source = fixture_directory("llama");
    for entry in std::fs::read_dir(source).unwrap() {
        let path = entry.unwrap().path();
        if !path.ends_with("chat_template.jinja") {
            std::fs::copy(&path, directory.path().join(path.file_name().unwrap())).unwrap();
        }
    }
    let path = directory.path().to_str().unwrap();
    let model = library().load(path, ModelOptions::default(), &mut |_| true).unwrap();
    assert!(!model.has_chat_template());
    let error = model.chat(vec![], Default::default(), greedy(1)).unwrap_err().to_string();
    assert!(error.contains("--chat-template"), "{error}");
}

#[test]
fn models_are_registered_and_unloaded() {
    let library = library();
    let path = fixture_directory("llama-tied");
    let path = path.to_str().unwrap();
    let model = library.load(path, ModelOptions::default(), &mut |_| true).unwrap();
    assert_eq!(library.get("llama-tied").unwrap().id(), model.id());
    let twice = library.load(path, ModelOptions::default(), &mut |_| true).unwrap_err();
    assert!(matches!(twice, Error::AlreadyLoaded(_)), "{twice}");
    let other = ModelOptions { id: Some("b".into()), ..ModelOptions::default() };
    let cancelled = library.load(path, other.clone(), &mut |_| false);
    assert!(matches!(cancelled, Err(Error::Cancelled)), "{cancelled:?}");
    library.load(path, other, &mut |_| true).unwrap();
    assert_eq!(library.loaded().len(), 2);
    assert!(library.unload(model.id()).unwrap().0 > 0);
    assert!(matches!(library.get("llama-tied"), Err(Error::NotFound(_))));
    let late = model.generate(prompt(3, 0), greedy(1)).unwrap_err();
    assert!(matches!(late, Error::Draining), "{late}");
}

#[test]
fn inspection_tells_what_a_fixture_is() {
    for name in fixture_names() {
        let directory = fixture_directory(&name);
        let report =
            library().inspect(directory.to_str().unwrap(), &ModelOptions::default()).unwrap();
        assert!(report.runs(), "{name}: {report:?}");
        assert!(report.findings.is_empty(), "{name}: {report:?}");
        let model = report.model.unwrap();
        assert!(model.parameters > Some(100_000) && !model.layers.is_empty(), "{name}: {model:?}");
    }
}

#[test]
fn inspection_tells_how_experts_are_chosen() {
    let meanings = |name: &str| -> Vec<String> {
        let directory = fixture_directory(name);
        let options = ModelOptions::default();
        let report = library().inspect(directory.to_str().unwrap(), &options).unwrap();
        report.model.unwrap().layers.into_iter().map(|layer| layer.meaning).collect()
    };
    let routed = "; 2 of 8 experts of 64 (silu) by sigmoid, and 64 (silu) for all";
    let seen = meanings("glm4-moe");
    assert!(seen[0].ends_with("; dense 256 (silu)") && seen[1].ends_with(routed), "{seen:?}");
    assert!(meanings("mixtral")[0].ends_with("; 2 of 4 experts of 128 (silu) by softmax"));
}

#[test]
fn made_up_weights_need_a_configuration_alone() {
    let directory = tempfile::tempdir().unwrap();
    let config = fixture_directory("llama").join("config.json");
    std::fs::copy(config, directory.path().join("config.json")).unwrap();
    let synthetic = SyntheticWeights { seed: 1, dtype: tokenmill::DType::BF16 };
    let options = ModelOptions { synthetic: Some(synthetic), ..ModelOptions::default() };
    let path = directory.path().to_str().unwrap();
    let model = library().load(path, options, &mut |_| true).unwrap();
    assert_eq!(tokens(&model, &prompt(4, 0), &greedy(5)).len(), 5);
}

#[test]
fn a_conversation_grows_until_the_context_ends() {
    let model = load_with(
        "llama",
        ModelOptions { max_sequence_tokens: Some(96), ..ModelOptions::default() },
    );
    let options = SessionOptions { generate: greedy(8), ..SessionOptions::default() };
    let mut session = model.session(options);
    let refused = loop {
        let turns = session.history().len();
        match session.ask("and then?").and_then(|answer| answer.text()) {
            Ok(_) => assert_eq!(session.history().len(), turns + 2),
            Err(error) => {
                assert_eq!(session.history().len(), turns, "a refused question leaves no trace");
                break error;
            }
        }
    };
    assert!(matches!(refused, Error::ContextLengthExceeded { limit: 96, .. }), "{refused}");
    assert!(session.history().len() >= 2);
    session.reset();
    assert!(session.ask("again").is_ok());
}

#[test]
fn an_answer_that_is_dropped_stays_as_far_as_it_was_read() {
    let model = load("llama");
    let options = SessionOptions { generate: greedy(400), ..SessionOptions::default() };
    let mut session = model.session(options);
    drop(session.ask("unheard").unwrap());
    assert!(session.history().is_empty());
    let mut heard = String::new();
    for event in session.ask("heard").unwrap() {
        if let GenerationEvent::Delta { text, .. } = event.unwrap() {
            heard.push_str(&text);
        }
        if !heard.is_empty() {
            break;
        }
    }
    assert_eq!(session.history()[1].content, Some(heard.into()));
    assert_eq!(session.undo().as_deref(), Some("heard"));
    assert!(session.history().is_empty());
}

#[test]
fn references_are_directories_or_names_in_the_cache() {
    let cache = tempfile::tempdir().unwrap();
    let snapshot = cache.path().join("models--org--tiny/snapshots/abc");
    std::fs::create_dir_all(&snapshot).unwrap();
    for entry in std::fs::read_dir(fixture_directory("llama-tied")).unwrap() {
        let path = entry.unwrap().path();
        std::fs::copy(&path, snapshot.join(path.file_name().unwrap())).unwrap();
    }
    let refs = cache.path().join("models--org--tiny/refs");
    std::fs::create_dir_all(&refs).unwrap();
    std::fs::write(refs.join("main"), "abc").unwrap();
    let cache_dir = Some(cache.path().to_owned());
    let library = Library::new(LibraryOptions { cache_dir, ..Default::default() }).unwrap();
    assert_eq!(library.resolve("org/tiny").unwrap(), snapshot);
    let local = library.local_models().unwrap();
    assert_eq!(
        (local.len(), local[0].name.as_str(), local[0].bytes > 700_000),
        (1, "org/tiny", true)
    );
    let model = library.load("org/tiny", ModelOptions::default(), &mut |_| true).unwrap();
    assert_eq!(model.id().0, "org/tiny");
    for (reference, part) in [
        ("org/tiny@v2", "it has main"),
        ("org/other", "pull it first"),
        ("./nowhere", "does not exist"),
    ] {
        let error = library.resolve(reference).unwrap_err();
        assert!(matches!(&error, Error::NotFound(text) if text.contains(part)), "{error}");
    }
    assert!(library.remove_local("org/tiny").unwrap().0 > 700_000);
    assert!(library.local_models().unwrap().is_empty());
}

#[test]
fn a_device_that_is_not_there_is_an_error_that_says_why() {
    let options =
        LibraryOptions { device: tokenmill::DeviceChoice::Cuda, ..LibraryOptions::default() };
    // On a machine with a GPU there is nothing to refuse.
    let Err(error) = Library::new(options) else { return };
    let error = error.to_string();
    assert!(error.starts_with("device: ") && error.ends_with("; or use cpu or auto"), "{error}");
    assert!(["driver", "GPU", "kernels", "backend"].iter().any(|w| error.contains(w)), "{error}");
}
