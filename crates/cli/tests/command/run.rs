//! `tokenmill run`, one answer.

use std::{
    fs,
    io::{BufRead, BufReader, Read},
    process::Stdio,
};

use serde_json::Value;

use crate::support::{Home, Ran, copy_of, fixture, llama, signal, text};

/// The tokens of a `--json` run.
fn tokens(ran: &Ran) -> Vec<u64> {
    let lines = ran.json_lines();
    let deltas = lines.iter().filter(|line| line["event"] == "delta");
    deltas
        .flat_map(|line| line["tokens"].as_array().unwrap())
        .map(|id| id.as_u64().unwrap())
        .collect()
}

const GREEDY: [&str; 6] = ["--raw", "--json", "--temperature", "0", "--ignore-eos", "-n24"];

#[test]
fn greedy_text_is_the_golden_one() {
    let home = Home::new();
    let model = llama();
    let golden = fs::read(fixture("llama").join("golden.json")).unwrap();
    let golden: Value = serde_json::from_slice(&golden).unwrap();
    for prompt in golden["prompts"].as_array().unwrap() {
        let text = prompt["text"].as_str().unwrap();
        let ran = home.run(&[&["run", &model][..], &GREEDY, &["-p", text]].concat());
        assert_eq!(Value::from(tokens(&ran)), prompt["greedy_ids"]);
        let last = ran.json_lines().pop().unwrap();
        assert_eq!(last["event"], "answer");
        assert_eq!(last["finish_reason"], "length");
        let prompt_tokens = prompt["input_ids"].as_array().map(Vec::len);
        assert_eq!(
            last["usage"]["prompt_tokens"].as_u64(),
            prompt_tokens.map(|count| count as u64)
        );
        assert_eq!(last["usage"]["completion_tokens"], 24);
    }
}

#[test]
fn one_shot_prints_the_answer_and_nothing_else() {
    let home = Home::new();
    let model = llama();
    let arguments = ["run", &model, "-p", "hello", "-n8", "--ignore-eos", "--seed", "7", "-q"];
    let first = home.run(&arguments);
    assert!(first.done().trim().len() > 1, "{first:?}");
    assert!(first.stdout.ends_with('\n'));
    assert_eq!(first.stderr, "");
    let again = home.run(&arguments);
    assert_eq!(first.stdout, again.stdout, "same seed, same text");
    let other = home.run(&["run", &model, "-p", "hello", "-n8", "--ignore-eos", "--seed", "8"]);
    assert_ne!(first.stdout, other.stdout, "another seed, another text");
}

#[test]
fn streamed_pieces_make_the_answer() {
    let home = Home::new();
    let lines =
        home.run(&["run", &llama(), "-p", "hi", "-n20", "--ignore-eos", "--json"]).json_lines();
    let pieces: String = lines
        .iter()
        .filter_map(|line| Some(line["text"].as_str()?).filter(|_| line["event"] == "delta"))
        .collect();
    assert_eq!(lines[0]["event"], "prompt");
    assert_eq!(lines.last().unwrap()["text"], pieces.as_str());
}

#[test]
fn a_pipe_is_the_prompt_and_stands_below_one() {
    let home = Home::new();
    let model = llama();
    let run = [&["run", &model][..], &GREEDY].concat();
    let piped = home.run_with(&run, b"room the request whi\n");
    let given = home.run(&[&run[..], &["-p", "room the request whi"]].concat());
    assert_eq!(tokens(&piped), tokens(&given));
    let both = home.run_with(&[&run[..], &["-p", "room"]].concat(), b"the request\n");
    let joined = home.run(&[&run[..], &["-p", "room\n\nthe request"]].concat());
    assert_eq!(tokens(&both), tokens(&joined));
    assert_ne!(tokens(&both), tokens(&given));
}

#[test]
fn a_stop_text_ends_the_answer() {
    let home = Home::new();
    let model = llama();
    let run = ["run", &model, "--raw", "-p", "room", "-n24", "--temperature=0", "--ignore-eos"];
    let whole = home.run(&run).done().to_owned();
    let stop: String = whole.chars().skip(5).take(2).collect();
    let cut = home.run(&[&run[..], &["--stop", &stop]].concat()).done().to_owned();
    let wanted = whole.split(&stop).next().unwrap();
    assert_eq!(cut.strip_suffix('\n').unwrap_or(&cut), wanted.strip_suffix('\n').unwrap_or(wanted));
}

#[test]
fn without_a_template_the_text_is_continued_and_that_is_said() {
    let home = Home::new();
    let model = copy_of("llama");
    fs::remove_file(model.path().join("chat_template.jinja")).unwrap();
    let path = text(model.path());
    let ran = home.run(&["run", path, "-p", "room", "-n4", "--seed=1"]);
    ran.done();
    assert!(ran.stderr.contains("no chat template"), "{ran:?}");
    let raw = home.run(&["run", path, "-p", "room", "-n4", "--seed=1", "--raw", "-q"]);
    assert_eq!((ran.stdout, raw.stderr.as_str()), (raw.stdout, ""));
    home.run(&["run", path, "-p", "x", "--system", "be brief"])
        .failed(2, &["no chat template", "--system"]);
}

#[test]
fn the_system_message_reaches_the_model() {
    let home = Home::new();
    let model = llama();
    let prompt_tokens = |ran: Ran| ran.json_lines()[0]["tokens"].as_u64().unwrap();
    let plain = prompt_tokens(home.run(&["run", &model, "-p", "hi", "-n1", "--json"]));
    let system = prompt_tokens(
        home.run(&["run", &model, "-p", "hi", "-n1", "--json", "--system", "be brief"]),
    );
    assert!(system > plain + 3, "{system} {plain}");
}

#[test]
fn what_is_not_there_is_named() {
    let home = Home::new();
    home.run(&["run", "/no/such/model", "-p", "hi"]).failed(3, &["/no/such/model", "hint:"]);
    home.run(&["run", "org/absent", "-p", "hi"]).failed(3, &["org/absent", "tokenmill pull"]);
    home.run(&["run"]).failed(2, &["no MODEL", "tokenmill pull"]);
}

#[test]
fn input_that_is_no_prompt_is_refused() {
    let home = Home::new();
    home.run_with(&["run", &llama()], b"").failed(2, &["standard input is empty"]);
    home.run_with(&["run", &llama()], b"abc\xff").failed(2, &["UTF-8", "byte at 3"]);
}

#[test]
fn a_wrong_value_is_named() {
    let home = Home::new();
    let model = llama();
    let run = ["run", &model, "-p", "hi"];
    home.run(&[&run[..], &["--temperature=-1"]].concat()).failed(2, &["temperature", "-1"]);
    home.run(&[&run[..], &["--top-p", "0"]].concat()).failed(2, &["top_p"]);
    home.run(&[&run[..], &["--max-model-len", "0"]].concat())
        .failed(2, &["max-model-len", "\"0\""]);
    let ran = home.run(&[&run[..], &["--temprature", "1"]].concat());
    ran.failed(2, &["--temprature", "--temperature"]);
}

#[test]
fn a_prompt_longer_than_the_context_is_told_in_numbers() {
    let home = Home::new();
    let prompt = "room the request ".repeat(40);
    let ran = home.run(&["run", &llama(), "-p", &prompt, "--max-model-len", "64"]);
    assert_ne!(ran.code, 0);
    assert!(ran.stderr.contains("64 tokens") && ran.stderr.contains("hint:"), "{ran:?}");
}

#[test]
fn a_broken_checkpoint_is_one_clear_error() {
    let home = Home::new();
    let model = copy_of("qwen3");
    let weights = model.path().join("model.safetensors");
    let bytes = fs::read(&weights).unwrap();
    fs::write(&weights, &bytes[..bytes.len() / 2]).unwrap();
    let ran = home.run(&["run", text(model.path()), "-p", "hi"]);
    ran.failed(3, &["model.safetensors", "tokenmill inspect"]);
    fs::write(model.path().join("config.json"), "{").unwrap();
    home.run(&["run", text(model.path()), "-p", "hi"]).failed(3, &["config.json"]);
}

#[test]
fn a_reader_that_goes_away_is_no_error() {
    let home = Home::new();
    let mut command =
        home.command(&["run", &llama(), "-p", "hi", "-n2000", "--ignore-eos", "--seed=3"]);
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut first = [0];
    child.stdout.take().unwrap().read_exact(&mut first).unwrap();
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(0));
    assert_eq!(String::from_utf8_lossy(&output.stderr), "");
}

#[test]
fn an_interrupt_ends_the_answer_quietly() {
    let home = Home::new();
    let arguments = ["run", &llama(), "-p", "hi", "-n4000", "--ignore-eos", "--json"];
    let mut command = home.command(&arguments);
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines().map(Result::unwrap);
    lines.next().unwrap();
    lines.next().unwrap();
    signal(&child, "INT");
    let last: Value = serde_json::from_str(&lines.last().unwrap()).unwrap();
    assert_eq!(last["finish_reason"], "cancelled");
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(130));
    assert_eq!(String::from_utf8_lossy(&output.stderr), "");
}

#[test]
fn settings_reach_the_model_from_flag_and_variable() {
    let home = Home::new();
    let mut command = home.command(&["run", &llama(), "-p", "hi", "-n1", "-v"]);
    let output = command.env("TOKENMILL_MAX_MODEL_LEN", "96").output().unwrap();
    let log = String::from_utf8(output.stderr).unwrap();
    assert!(log.contains("96"), "{log}");
    let mut command = home.command(&["run", &llama(), "-p", "hi"]);
    let output = command.env("TOKENMILL_MAX_MODEL_LENGTH", "96").output().unwrap();
    assert_eq!(output.status.code(), Some(2));
    let log = String::from_utf8(output.stderr).unwrap();
    assert!(log.contains("TOKENMILL_MAX_MODEL_LENGTH") && log.contains("did you mean"), "{log}");
}

#[test]
fn every_fixture_answers() {
    let home = Home::new();
    for name in testkit::golden::fixture_names() {
        let path = fixture(&name);
        let ran = home.run(&["run", text(&path), "-p", "hi", "-n4", "--ignore-eos", "-q"]);
        assert_eq!((ran.code, ran.stderr.as_str()), (0, ""), "{name}: {ran:?}");
    }
}

#[test]
fn values_out_of_range_are_told_with_the_range() {
    let home = Home::new();
    let model = llama();
    for (flag, value, words) in [
        ("--temperature", "-1", "temperature"),
        ("--min-p", "-3", "min_p"),
        ("--seed", "-1", "0 to 18446744073709551615"),
        ("-n", "0", "at least 1"),
    ] {
        let ran = home.run(&["run", &model, "-p", "hi", flag, value]);
        ran.failed(2, &[words, value]);
        assert!(!ran.stderr.contains("unexpected argument"), "{ran:#?}");
    }
}

#[test]
fn input_that_never_ends_is_refused() {
    let home = Home::new();
    let model = llama();
    let mut command = home.command(&["run", &model]);
    command.stdin(fs::File::open("/dev/zero").unwrap());
    crate::support::ran(command.output().unwrap()).failed(2, &["standard input: more than 64"]);
    for (template, words) in [("/dev/zero", "more than 1.0 MiB"), ("/nope", "No such file")] {
        let ran = home.run(&["run", &model, "-p", "hi", "--chat-template", template]);
        ran.failed(2, &["--chat-template: ", template, words]);
    }
}

/// A template whose models reason, unless they are told not to.
const REASONING: &str = "{% for m in messages %}{{ m.content }}{% endfor %}\
{% if enable_thinking is defined and not enable_thinking %}{{ '<think></think>' }}{% else %}{{ '<think>' }}{% endif %}";

#[test]
fn a_pipe_gets_the_answer_without_its_reasoning() {
    let home = Home::new();
    let template = home.path().join("template.jinja");
    fs::write(&template, REASONING).unwrap();
    let (directory, template) = (fixture("qwen3"), text(&template));
    let model = text(&directory);
    let arguments = [
        "run",
        model,
        "--chat-template",
        template,
        "-p",
        "hello",
        "-n6",
        "--ignore-eos",
        "--seed",
        "7",
    ];
    // Six tokens do not reach the end of the reasoning.
    let ran = home.run(&arguments);
    assert_eq!(ran.done(), "");
    assert!(ran.stderr.contains("the answer ended within its reasoning\n"), "{ran:?}");
    let events = home.run(&[&arguments[..], &["--json"]].concat()).json_lines();
    let last = events.last().unwrap();
    assert_eq!(last["text"], "");
    assert!(last["reasoning"].as_str().is_some_and(|text| !text.is_empty()), "{last}");
    let ran = home.run(&[&arguments[..], &["--no-thinking"]].concat());
    assert!(ran.done().trim().len() > 1, "{ran:?}");
}

#[test]
fn no_thinking_needs_a_template_that_knows_it() {
    let home = Home::new();
    let ran = home.run(&["run", &llama(), "-p", "hello", "--no-thinking"]);
    ran.failed(2, &["does not read enable_thinking"]);
}

#[test]
fn an_answer_that_was_cut_says_so_beside_it() {
    let home = Home::new();
    let ran = home.run(&["run", &llama(), "-p", "hi", "-n3", "--ignore-eos", "--seed=1"]);
    ran.done();
    assert!(ran.stderr.contains("cut after 3 tokens"), "{ran:#?}");
    assert!(!ran.stdout.contains("cut after"), "{ran:#?}");
    let quiet = home.run(&["run", &llama(), "-p", "hi", "-n3", "--ignore-eos", "--seed=1", "-q"]);
    assert_eq!(quiet.stderr, "");
}

#[test]
fn a_longer_context_is_advised_only_where_it_can_be_had() {
    let home = Home::new();
    let long = "word ".repeat(400);
    let ran = home.run(&["run", &llama(), "-p", &long, "--max-model-len", "64"]);
    ran.failed(1, &["context holds 64", "raise --max-model-len"]);
    let longer = "word ".repeat(20_000);
    let ran = home.run_with(&["run", &llama()], longer.as_bytes());
    assert!(ran.code == 1 && !ran.stderr.contains("raise --max-model-len"), "{ran:#?}");
}

#[test]
fn twice_verbose_tells_more_than_once() {
    let home = Home::new();
    let run = |flag| home.run(&["run", &llama(), "-p", "hi", "-n3", "--ignore-eos", flag]).stderr;
    let (once, twice) = (run("-v"), run("-vv"));
    assert!(!once.contains("answered"), "{once}");
    assert!(twice.contains("answered") && twice.contains("completion_tokens=3"), "{twice}");
}
