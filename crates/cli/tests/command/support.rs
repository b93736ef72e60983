//! Runs the program in an environment of its own.

use std::{
    fs,
    io::Write,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
};

use serde_json::Value;
use tempfile::TempDir;

/// A user's home, empty at first, and nothing else in the environment.
pub struct Home {
    dir: TempDir,
}

/// What a run of the program left.
#[derive(Debug)]
pub struct Ran {
    pub code: i32,
    pub stdout: String,
    pub stderr: String,
}

impl Home {
    pub fn new() -> Self {
        Home { dir: tempfile::tempdir().unwrap() }
    }

    pub fn path(&self) -> &Path {
        self.dir.path()
    }

    /// The program, with this home and nothing on standard input.
    pub fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_tokenmill"));
        command.args(arguments).env_clear().env("HOME", self.path()).stdin(Stdio::null());
        command
    }

    pub fn run(&self, arguments: &[&str]) -> Ran {
        ran(self.command(arguments).output().unwrap())
    }

    /// With `input` coming through a pipe.
    pub fn run_with(&self, arguments: &[&str], input: &[u8]) -> Ran {
        let mut command = self.command(arguments);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        // The program may refuse before it reads: then the pipe is closed, which is its answer to judge.
        let _ = child.stdin.take().unwrap().write_all(input);
        ran(child.wait_with_output().unwrap())
    }

    /// A fixture in the hub cache under the name `org/tiny`.
    pub fn with_local_model(self) -> Self {
        let repository = self.path().join(".cache/huggingface/hub/models--org--tiny");
        let snapshot = repository.join("snapshots/0123abcd");
        copy(&fixture("llama"), &snapshot);
        fs::create_dir_all(repository.join("refs")).unwrap();
        fs::write(repository.join("refs/main"), "0123abcd").unwrap();
        self
    }
}

impl Ran {
    /// A failure that says what is wrong: one error, no panic, nothing on standard output.
    pub fn failed(&self, code: i32, words: &[&str]) {
        assert_eq!(self.code, code, "{self:#?}");
        assert_eq!(self.stdout, "", "{self:#?}");
        assert!(self.stderr.starts_with("error: "), "{self:#?}");
        assert!(!self.stderr.contains("panicked"), "{self:#?}");
        for word in words {
            assert!(self.stderr.contains(word), "no {word:?} in {self:#?}");
        }
    }

    /// Standard output of a success.
    pub fn done(&self) -> &str {
        assert_eq!(self.code, 0, "{self:#?}");
        &self.stdout
    }

    /// Standard output of a success, as one JSON document.
    pub fn json(&self) -> Value {
        serde_json::from_str(self.done()).unwrap()
    }

    /// Standard output of a success, a JSON value on each line.
    pub fn json_lines(&self) -> Vec<Value> {
        self.done().lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }
}

pub fn ran(output: std::process::Output) -> Ran {
    Ran {
        code: output.status.code().unwrap_or(-1),
        stdout: String::from_utf8(output.stdout).unwrap(),
        stderr: String::from_utf8(output.stderr).unwrap(),
    }
}

/// A fixture's directory.
pub fn fixture(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures").join(name).canonicalize().unwrap()
}

/// The directory of the fixture that most tests use, as an argument.
pub fn llama() -> String {
    fixture("llama").into_os_string().into_string().unwrap()
}

/// A copy of a fixture that may be broken, without its goldens.
pub fn copy_of(name: &str) -> TempDir {
    let dir = tempfile::tempdir().unwrap();
    copy(&fixture(name), dir.path());
    dir
}

fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        if !entry.file_name().to_string_lossy().starts_with("golden") {
            fs::copy(entry.path(), to.join(entry.file_name())).unwrap();
        }
    }
}

pub fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}

/// Sends the child a signal by name.
pub fn signal(child: &Child, name: &str) {
    let sent = Command::new("kill").args(["-s", name, &child.id().to_string()]).status().unwrap();
    assert!(sent.success());
}
