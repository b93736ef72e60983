//! `tokenmill bench serve` as a client of servers that misbehave, and of many at once.

use std::{
    fs,
    io::Write,
    net::TcpListener,
    sync::{Barrier, Mutex, mpsc},
    thread,
    time::Duration,
};

use serde_json::{Value, json};

use crate::{
    standin::{self, TOKEN, begin, event, stream},
    support::{Home, Ran, fixture, llama, ran, text},
};

const DONE: &str = "[DONE]";
const USAGE: &str = r#"{"choices":[],"usage":{"prompt_tokens":4,"completion_tokens":2}}"#;

/// Measures three requests of four words and two tokens.
fn measured(url: &str, more: &[&str]) -> Ran {
    let shape = ["bench", "serve", "--url", url, "-r3", "-c1", "-p4", "-o2", "--warmup=0"];
    Home::new().run(&[&shape[..], more].concat())
}

/// The first point, whether or not requests failed.
fn point(ran: &Ran) -> Value {
    let report: Value = serde_json::from_str(&ran.stdout).unwrap_or_else(|_| panic!("{ran:?}"));
    report["results"][0].clone()
}

#[test]
fn nobody_is_waited_for_without_end() {
    let silent = standin::serve(|_, _| thread::park());
    let stalled = standin::serve(|_, stream| {
        begin(stream);
        event(stream, TOKEN);
        // Signs of life are no tokens.
        while stream.write_all(b": alive\n\n").is_ok() {
            thread::sleep(Duration::from_millis(20));
        }
    });
    let endless = standin::serve(|_, stream| {
        begin(stream);
        while event(stream, TOKEN) {
            thread::sleep(Duration::from_millis(5));
        }
    });
    for (url, flag, tokens) in [
        (silent, "--first-token-timeout", 0),
        (stalled, "--stall-timeout", 3),
        (endless, "--request-timeout", 3),
    ] {
        let ran = measured(&url, &["--json", &format!("{flag}=0.3")]);
        let point = point(&ran);
        assert_eq!((ran.code, &point["failed"], &point["requests"]), (1, &3.into(), &0.into()));
        let failure = point["first_failure"].as_str().unwrap();
        assert!(failure.contains("within 0.3 s") && failure.contains(flag), "{failure}");
        assert!(point["failed_output_tokens"].as_u64() >= Some(tokens), "{point}");
        // Three times 0.3 s, one after the other: what failures took is part of the whole.
        assert!(point["wall_s"].as_f64() > Some(0.89), "{point}");
    }
}

#[test]
fn a_handshake_that_never_comes_is_not_waited_for() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("https://{}", listener.local_addr().unwrap());
    let ran = measured(&url, &["--model-name=m", "--connect-timeout=0.1", "--json"]);
    let failure = point(&ran)["first_failure"].as_str().unwrap().to_owned();
    assert!(failure.contains("no connection within 0.1 s (--connect-timeout)"), "{failure}");
}

#[test]
fn an_answer_that_cannot_be_true_is_a_failure() {
    let usage = |prompt: i64, output: i64| {
        json!({"choices": [], "usage": {"prompt_tokens": prompt, "completion_tokens": output}})
            .to_string()
    };
    for (events, words) in [
        (vec![DONE], "without a token"),
        (vec![USAGE, DONE], "without a token"),
        (vec![TOKEN, TOKEN, USAGE], "without [DONE]"),
        (vec![TOKEN, TOKEN, &usage(4, 200), DONE], "at most 2 were asked for"),
        (vec![TOKEN, TOKEN, TOKEN, &usage(4, 1), DONE], "text came in 3 events"),
        (vec![TOKEN, TOKEN, &usage(1, 2), DONE], "4 words were sent"),
        (vec![TOKEN, TOKEN, &usage(4, -2), DONE], "does not read"),
        (vec![TOKEN, r#"{"error":{"message":"out of blocks"}}"#, DONE], "out of blocks"),
        (vec![TOKEN, r#"{"choices":[{"text":"","finish_reason":"abort"}]}"#, DONE], "by abort"),
        (vec![TOKEN, "{", DONE], "does not read"),
    ] {
        let ran = measured(&standin::serve(stream(&events)), &["--json"]);
        let point = point(&ran);
        assert_eq!(
            (ran.code, &point["failed"], &point["output_tokens"]),
            (1, &3.into(), &0.into())
        );
        let failure = point["first_failure"].as_str().unwrap();
        assert!(failure.contains(words), "{failure}, not {words}");
        assert!(ran.stderr.contains("3 of 3 requests failed"), "{ran:?}");
    }
}

#[test]
fn what_is_not_known_is_not_claimed() {
    let mute = standin::serve(stream(&[TOKEN, TOKEN, DONE]));
    let counts = point(&measured(&mute, &["--json"]));
    assert_eq!((&counts["estimated"], &counts["output_tokens"]), (&3.into(), &6.into()));
    assert!(measured(&mute, &[]).done().contains("of 3 requests estimated"));

    let usage = USAGE.replace(":2", ":1");
    let short = standin::serve(stream(&[TOKEN, &usage, DONE]));
    let counts = point(&measured(&short, &["--json"]));
    assert_eq!((&counts["short_answers"], &counts["failed"]), (&3.into(), &0.into()));
    assert!(measured(&short, &[]).done().contains("3 answers have fewer tokens"));
    let may_end = point(&measured(&short, &["--json", "--allow-eos"]));
    assert_eq!(may_end["short_answers"], 0);
}

#[test]
fn many_streams_are_held_at_once() {
    // No stream gets its first token before all of them are there.
    let barrier = Barrier::new(200);
    let url = standin::serve(move |_, stream| {
        begin(stream);
        barrier.wait();
        for data in [TOKEN, TOKEN, USAGE, DONE] {
            event(stream, data);
        }
    });
    let shape =
        ["bench", "serve", "--json", "--url", &url, "-r200", "-c200", "-p4", "-o2", "--warmup=0"];
    let ran = Home::new().run(&shape);
    let report = ran.json();
    let point = &report["results"][0];
    assert_eq!((&point["requests"], &point["peak_concurrency"]), (&200.into(), &200.into()));
    assert!(point["client"]["processor_s"].as_f64() > Some(0.0), "{point}");
    assert!(point.get("host").is_none(), "the server is another process: {point}");
}

#[test]
fn requests_carry_what_the_command_line_says() {
    let (seen, requests) = mpsc::channel();
    let seen = Mutex::new(seen);
    let url = standin::serve(move |request, stream| {
        let key = request.header("authorization").map(str::to_owned);
        seen.lock().unwrap().send((request.path.clone(), key, request.json())).unwrap();
        standin::stream(&[TOKEN, TOKEN, USAGE, DONE])(request, stream);
    });
    let home = Home::new();
    let send = |more: &[&str]| {
        let shape = ["bench", "serve", "--url", &url, "--num-prompts=1", "--warmup=1"];
        let lengths = ["--random-input-len=4", "--random-output-len=2", "--max-concurrency=1"];
        let mut command = home.command(&[&shape[..], &lengths, more].concat());
        ran(command.env("OPENAI_API_KEY", "of-the-environment").output().unwrap()).done();
        let both: Vec<_> = requests.try_iter().collect();
        assert_eq!(both.len(), 2, "one to warm up, one that counts");
        assert_ne!(both[0].2, both[1].2, "a prompt is not sent twice");
        both[1].clone()
    };
    let (path, key, body) = send(&[]);
    assert_eq!(
        (path.as_str(), key.as_deref()),
        ("/v1/completions", Some("Bearer of-the-environment"))
    );
    assert_eq!((&body["max_tokens"], &body["ignore_eos"]), (&2.into(), &true.into()));
    assert_eq!(body["prompt"].as_str().unwrap().split(' ').count(), 4);
    let drawn = ["--temperature=0.8", "--top-p=0.9", "--request-seed=3", "--allow-eos"];
    let (path, key, body) =
        send(&[&drawn[..], &["--endpoint=chat", "--bench-api-key=given"]].concat());
    assert_eq!((path.as_str(), key.as_deref()), ("/v1/chat/completions", Some("Bearer given")));
    assert_eq!(
        (&body["temperature"], &body["top_p"], &body["seed"]),
        (&0.8.into(), &0.9.into(), &3.into())
    );
    assert_eq!(body["messages"][0]["role"], "user");
    assert!(body.get("ignore_eos").is_none());
}

#[test]
fn arrivals_are_measured_from_their_plan() {
    let url = standin::serve(stream(&[TOKEN, TOKEN, USAGE, DONE]));
    let shape = ["bench", "serve", "--json", "--url", &url, "-r9", "--rate=300,900", "-p4", "-o2"];
    let report = Home::new().run(&shape).json();
    let points = report["results"].as_array().unwrap();
    let rates: Vec<&Value> = points.iter().map(|point| &point["rate_per_s"]).collect();
    assert_eq!(rates, [&json!(300.0), &json!(900.0)]);
    for point in points {
        assert_eq!(point["requests"], 9);
        let (lag, first) = (&point["sending_lag"], &point["time_to_first_token"]);
        assert_eq!((&lag["count"], &first["count"]), (&9.into(), &9.into()));
        // A request's first token cannot come before it is sent, and both count from the plan.
        assert!(first["max_ms"].as_f64() > lag["p50_ms"].as_f64(), "{point}");
    }
}

#[test]
fn a_sweep_is_a_table_a_report_and_a_picture() {
    let (home, model) = (Home::new(), llama());
    let at = |name: &str| text(&home.path().join(name)).to_owned();
    let shape = ["bench", "serve", &model, "-r6", "-c1,3", "-p24", "-o5", "--label=a <b>"];
    let ran = home.run(&[&shape[..], &["--json", "--plot", &at("one.svg")]].concat());
    let points = ran.json()["results"].as_array().unwrap().clone();
    let paces: Vec<&Value> = points.iter().map(|point| &point["concurrency"]).collect();
    assert_eq!(paces, [&json!(1), &json!(3)]);
    for point in &points {
        assert_eq!((&point["requests"], &point["output_tokens"]), (&6.into(), &30.into()));
        assert_eq!(point["cached_tokens"], 0, "no point finds the prompts of another");
        assert!(point["host"]["cores_busy"].as_f64() > Some(0.0), "{point}");
    }
    fs::write(at("one.json"), &ran.stdout).unwrap();
    fs::write(at("two.json"), &ran.stdout).unwrap();
    home.run(&["bench", "plot", &at("one.json"), &at("two.json"), "-o", &at("both.svg")]).done();
    for (file, names) in
        [("one.svg", vec!["a <b>"]), ("both.svg", vec!["a <b> (one)", "a <b> (two)"])]
    {
        let svg = fs::read_to_string(at(file)).unwrap();
        let document = roxmltree::Document::parse(&svg).unwrap();
        let titles = document.descendants().filter(|node| node.tag_name().name() == "title");
        let titles: Vec<&str> = titles.filter_map(|node| node.text()).skip(1).collect();
        assert_eq!(titles, names, "{file}");
    }
    let table = home.run(&shape);
    for word in ["together", "TTFT", "TPOT", "ITL", "output/s", "total/s", "cores of the host"] {
        assert!(table.done().contains(word), "no {word} in {table:?}");
    }
}

#[test]
fn conversations_find_their_beginnings_in_the_cache() {
    let model = llama();
    for endpoint in ["completions", "chat"] {
        let shape = ["bench", "serve", &model, "--json", "-r12", "-c2", "-p20", "-o6"];
        let chat = ["--lengths=chat", "--endpoint", endpoint];
        let report = Home::new().run(&[&shape[..], &chat].concat()).json();
        let point = &report["results"][0];
        assert_eq!((&point["requests"], &point["failed"]), (&12.into(), &0.into()), "{point}");
        assert!(point["cached_tokens"].as_u64() > Some(0), "{point}");
    }
}

#[test]
fn what_cannot_be_drawn_is_refused_before_anything_is_measured() {
    let home = Home::new();
    let config = fixture("llama").join("config.json");
    let to = home.path().join("x.svg");
    let plot = |file: &str, to: &str| home.run(&["bench", "plot", file, "-o", to]);
    plot(text(&config), text(&to)).failed(2, &["config.json", "bench serve --json"]);
    plot("/nowhere/x.json", text(&to)).failed(1, &["/nowhere/x.json"]);
    let nowhere = ["bench", "serve", &llama(), "--plot", "/nowhere/x.svg"];
    home.run(&nowhere).failed(1, &["/nowhere", "no such folder"]);
    for wrong in [["--lengths=random:2", "RATIO"], ["--stall-timeout=0", "seconds"], ["-c0", "1.."]]
    {
        home.run(&["bench", "serve", &llama(), wrong[0]]).failed(2, &[wrong[1]]);
    }
    assert!(!to.exists());
}
