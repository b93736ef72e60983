//! `tokenmill doctor`, `completions`, and what holds for every command.

use crate::support::Home;

#[test]
fn doctor_looks_everything_over() {
    let home = Home::new();
    let checks = home.run(&["doctor", "--json"]).json();
    for name in ["version", "processor", "memory", "gpu", "hub cache"] {
        let check = checks.as_array().unwrap().iter().find(|check| check["name"] == name);
        assert!(check.is_some_and(|check| check["level"].is_string()), "no {name} in {checks}");
    }
    assert!(home.run(&["doctor"]).done().contains("processor"));
}

#[test]
fn doctor_shows_variables_but_no_secret() {
    let home = Home::new();
    let mut command = home.command(&["doctor"]);
    let command = command.env("HF_TOKEN", "hf_secret").env("TOKENMILL_API_KEY", "hunter2");
    let output = command.output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(text.contains("HF_TOKEN") && text.contains("TOKENMILL_API_KEY"), "{text}");
    assert!(!text.contains("hf_secret") && !text.contains("hunter2"), "{text}");
}

#[test]
fn doctor_fails_on_a_variable_that_every_command_would_refuse() {
    let home = Home::new();
    let output = home.command(&["doctor"]).env("TOKENMILL_PROT", "1").output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(text.contains("fail") && text.contains("TOKENMILL_PORT"), "{text}");
}

#[test]
fn every_shell_gets_its_completions() {
    let home = Home::new();
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let ran = home.run(&["completions", shell]);
        for word in ["inspect", "max-model-len"] {
            assert!(ran.done().contains(word), "{shell} does not know {word}");
        }
    }
    home.run(&["completions", "tcsh"]).failed(2, &["tcsh"]);
}

#[test]
fn what_is_not_understood_is_refused_with_a_suggestion() {
    let home = Home::new();
    home.run(&["run", "x", "--max-model-ln", "3"]).failed(2, &["--max-model-len"]);
    home.run(&["sevre"]).failed(2, &["serve"]);
}

#[test]
fn help_names_the_exit_codes() {
    let home = Home::new();
    assert!(home.run(&["--help"]).done().contains("Exit codes: 0 done"));
    assert!(home.run(&["--version"]).done().starts_with("tokenmill "));
}
