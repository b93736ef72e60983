//! `tokenmill serve`.

use std::{
    io::{BufRead, BufReader, Read, Write},
    net::TcpStream,
    process::{Child, Stdio},
};

use crate::support::{Home, llama, signal};

/// A server on a free port.
struct Serving {
    child: Child,
    address: String,
    log: String,
}

impl Serving {
    fn start(home: &Home, arguments: &[&str]) -> Self {
        let arguments = [&["serve", "--port", "0"][..], arguments].concat();
        Serving::spawn(&mut home.command(&arguments))
    }

    fn spawn(command: &mut std::process::Command) -> Self {
        let child = command.stderr(Stdio::piped()).spawn().unwrap();
        let mut serving = Serving { child, address: String::new(), log: String::new() };
        let mut lines = BufReader::new(serving.child.stderr.take().unwrap());
        while serving.address.is_empty() {
            let mut line = String::new();
            let read = lines.read_line(&mut line).unwrap();
            assert_ne!(read, 0, "ended before it was ready: {}", serving.log);
            let address = line.trim_end().strip_prefix("ready on http://");
            serving.address = address.unwrap_or_default().to_owned();
            serving.log.push_str(&line);
        }
        // Read on, so that the server never waits for its log.
        std::thread::spawn(move || lines.read_to_string(&mut String::new()));
        serving
    }

    fn get(&self, path: &str, header: &str) -> String {
        let mut stream = TcpStream::connect(&self.address).unwrap();
        let request =
            format!("GET {path} HTTP/1.1\r\nhost: x\r\nconnection: close\r\n{header}\r\n");
        stream.write_all(request.as_bytes()).unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        answer
    }

    /// Ends it with SIGTERM and gives the exit code.
    fn end(mut self) -> Option<i32> {
        signal(&self.child, "TERM");
        self.child.wait().unwrap().code()
    }
}

impl Drop for Serving {
    /// A test that failed must not leave its server behind.
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn it_is_ready_when_it_says_so_and_drains_on_sigterm() {
    let home = Home::new().with_local_model();
    let model = llama();
    let serving = Serving::start(&home, &[&model, "org/tiny", "--max-model-len", "128"]);
    assert!(serving.get("/health", "").starts_with("HTTP/1.1 200"));
    let models = serving.get("/v1/models", "");
    assert!(models.contains("\"org/tiny\"") && models.contains("\"llama\""), "{models}");
    let setting = serving.log.lines().find(|line| line.starts_with("max-model-len")).unwrap();
    assert!(setting.contains("128") && setting.contains("flag --max-model-len"), "{setting}");
    assert_eq!(serving.end(), Some(0));
}

#[test]
fn every_setting_says_where_it_came_from() {
    let home = Home::new();
    let config = home.path().join("settings.toml");
    std::fs::write(&config, "max_num_seqs = 8\nport = 1\ndrain_timeout = 5\n").unwrap();
    let model = llama();
    let mut command = home.command(&["serve", &model, "--port", "0", "--threads", "1"]);
    command.args(["--config", config.to_str().unwrap()]).env("TOKENMILL_MAX_QUEUE", "9");
    let serving = Serving::spawn(&mut command);
    let words = |name: &str| {
        let line = serving.log.lines().find(|line| line.starts_with(name)).unwrap();
        line.split_whitespace().skip(1).collect::<Vec<_>>().join(" ")
    };
    for (name, wanted) in [
        ("port", "0 flag --port"),
        ("drain-timeout", "5 s key drain_timeout of the settings file"),
        ("max-body", "32.0 MiB default"),
        ("threads", "1 flag --threads"),
        ("max-queue", "9 variable TOKENMILL_MAX_QUEUE"),
        ("max-num-seqs", "8 key max_num_seqs of the settings file"),
        ("max-num-batched-tokens", "2048 default"),
        ("no-prefix-cache", "no default"),
        ("kv-offload-memory", "0 default"),
        ("speculate", "none default"),
        ("speculative-tokens", "7 default"),
        ("chat-template", "the checkpoint's checkpoint"),
    ] {
        assert_eq!(words(name), wanted, "{name}");
    }
    for name in ["device", "kv-memory"] {
        assert!(words(name).contains(" derived: "), "{}", words(name));
    }
    let length = words("max-model-len");
    assert!(length.contains(" checkpoint: config.json"), "{length}");
    assert_eq!(serving.end(), Some(0));
}

#[test]
fn settings_come_from_a_file_and_secrets_stay_hidden() {
    let home = Home::new();
    let config = home.path().join("settings.toml");
    std::fs::write(&config, "api_key = [\"hunter2\"]\nserved_model_name = [\"tiny\"]\n").unwrap();
    let serving = Serving::start(&home, &[&llama(), "--config", config.to_str().unwrap()]);
    assert!(!serving.log.contains("hunter2"), "{}", serving.log);
    assert!(serving.get("/v1/models", "").starts_with("HTTP/1.1 401"));
    let models = serving.get("/v1/models", "authorization: Bearer hunter2\r\n");
    assert!(models.contains("\"tiny\""), "{models}");
    assert_eq!(serving.end(), Some(0));
}

#[test]
fn another_server_can_be_measured() {
    let home = Home::new();
    let model = llama();
    let serving = Serving::start(&home, &[&model]);
    let url = format!("http://{}", serving.address);
    for target in [&["--url", &url][..], &["--url", &url, &model]] {
        let shape = ["bench", "serve", "--json", "-r4", "-p12", "-o3"];
        let report = home.run(&[&shape[..], target].concat()).json();
        assert_eq!(report["results"][0]["failed"], 0, "{report}");
        assert_eq!(report["results"][0]["output_tokens"], 12, "{report}");
    }
    let absent = ["bench", "serve", "--url", &url, "--model-name", "absent", "-r2", "-p3", "-o1"];
    home.run(&absent).failed(1, &["404", "absent"]);
    let measured = home.run(&[&absent[..], &["--warmup=0"]].concat());
    assert_eq!(measured.code, 1);
    assert!(measured.stdout.contains("404") && measured.stdout.contains("absent"), "{measured:?}");
    assert_eq!(serving.end(), Some(0));
}

#[test]
fn wrong_settings_are_told_all_at_once() {
    let home = Home::new();
    let ran = home.run(&["serve", &llama(), "--port", "eighty", "--max-body", "many"]);
    ran.failed(2, &["--port is \"eighty\"", "--max-body is \"many\""]);
    let ran = home.run(&["serve", &llama(), "--max-queue", "-1", "--kv-memory", "-1GiB"]);
    ran.failed(2, &["--max-queue is \"-1\"; wanted a whole number", "--kv-memory is \"-1GiB\""]);
    home.run(&["serve"]).failed(2, &["MODEL"]);
    let ran = home.run(&["serve", "/no/such/model", "--port", "0", "-q"]);
    assert_eq!(ran.code, 3, "{ran:?}");
    assert!(ran.stderr.contains("/no/such/model"), "{ran:?}");
}

#[test]
fn a_port_that_is_taken_is_told_before_anything_is_loaded() {
    let home = Home::new();
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = taken.local_addr().unwrap().port().to_string();
    let ran = home.run(&["serve", &llama(), "--port", &port]);
    ran.failed(1, &["cannot listen", &port]);
}

#[test]
fn every_model_is_looked_for_before_anything_is_loaded_or_told() {
    let home = Home::new();
    let ran = home.run(&["serve", &llama(), "/no/such/model", "--port", "0"]);
    ran.failed(3, &["/no/such/model does not exist"]);
}

#[test]
fn several_models_have_a_name_each() {
    let home = Home::new();
    let model = llama();
    let names = ["--served-model-name", "first,second", "--max-model-len", "64"];
    let serving = Serving::start(&home, &[&[&*model, &*model][..], &names].concat());
    for name in ["first", "second"] {
        let model = serving.get(&format!("/v1/models/{name}"), "");
        assert!(model.starts_with("HTTP/1.1 200") && model.contains(name), "{model}");
    }
    assert!(!serving.get("/v1/models", "").contains("\"llama\""));
    assert_eq!(serving.end(), Some(0));
    let ran = home.run(&["serve", &model, &model, "--served-model-name", "one"]);
    ran.failed(2, &["1 names for 2 models"]);
}

#[test]
fn a_settings_file_that_is_wrong_is_named() {
    let home = Home::new();
    let config = home.path().join("mill.toml");
    std::fs::write(&config, "port = \"3\"\n").unwrap();
    let config = config.to_str().unwrap();
    for command in ["serve", "run"] {
        let ran = home.run(&[command, &llama(), "--config", config]);
        ran.failed(2, &["key port of ", "mill.toml is the text \"3\"; wanted"]);
        home.run(&[command, "x", "--config", "/nope.toml"])
            .failed(2, &["flag --config: /nope.toml: No such file"]);
        home.run(&[command, "x", "--config", "/dev/zero"]).failed(2, &["more than 1.0 MiB"]);
        home.run(&[command, "x", "--log-level", "loud"])
            .failed(2, &["--log-level is \"loud\"", "off, error, warn, info, debug, trace"]);
    }
    let doctor = |path| {
        let mut command = home.command(&["doctor"]);
        crate::support::ran(command.env("TOKENMILL_CONFIG", path).output().unwrap())
    };
    let (wrong, absent) = (doctor(config), doctor("/nope.toml"));
    assert!(wrong.code == 1 && wrong.stdout.contains("key port of "), "{wrong:#?}");
    assert!(absent.code == 1 && absent.stdout.contains("/nope.toml: No such"), "{absent:#?}");
    assert!(absent.stdout.contains("run, serve, inspect, pull and bench stop"), "{absent:#?}");
}
