//! `tokenmill run` at a terminal, through a pseudo-terminal.

use std::{
    fs::{self, File},
    io::{Read, Write},
    os::fd::OwnedFd,
    process::{Child, Stdio},
    sync::mpsc::{Receiver, channel},
    thread,
};

use rustix::{
    pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt},
    termios::{Winsize, tcsetwinsize},
};

use crate::support::{Home, llama, signal, text};

/// The program at a terminal of 100 columns.
struct Terminal {
    child: Child,
    keyboard: File,
    screen: Receiver<Vec<u8>>,
    seen: String,
}

impl Terminal {
    fn open(home: &Home, arguments: &[&str]) -> Self {
        let keyboard = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).unwrap();
        grantpt(&keyboard).unwrap();
        unlockpt(&keyboard).unwrap();
        let size = Winsize { ws_row: 40, ws_col: 100, ws_xpixel: 0, ws_ypixel: 0 };
        tcsetwinsize(&keyboard, size).unwrap();
        let name = ptsname(&keyboard, Vec::new()).unwrap();
        let side = || -> OwnedFd {
            File::options().read(true).write(true).open(name.to_str().unwrap()).unwrap().into()
        };
        let mut command = home.command(arguments);
        command.env("TERM", "xterm").stdin(Stdio::from(side()));
        let child =
            command.stdout(Stdio::from(side())).stderr(Stdio::from(side())).spawn().unwrap();
        drop(command);
        let keyboard = File::from(keyboard);
        let screen = watch(keyboard.try_clone().unwrap());
        Terminal { child, keyboard, screen, seen: String::new() }
    }

    fn type_in(&mut self, keys: &str) {
        self.keyboard.write_all(keys.as_bytes()).unwrap();
    }

    /// Waits for the prompt, types a line, and reads until `answer` appears. Keys that come before the prompt are lost.
    fn enter(&mut self, line: &str, answer: &str) -> String {
        self.wait_for("> ");
        self.type_in(&format!("{line}\r"));
        self.wait_for(answer)
    }

    /// Reads until the text appears after what was read before; gives what came up to it.
    fn wait_for(&mut self, wanted: &str) -> String {
        loop {
            if let Some(at) = self.seen.find(wanted) {
                let rest = self.seen.split_off(at + wanted.len());
                return std::mem::replace(&mut self.seen, rest);
            }
            match self.screen.recv() {
                Ok(bytes) => self.seen.push_str(&String::from_utf8_lossy(&bytes)),
                Err(_) => panic!("the program ended; no {wanted:?} in {:?}", self.seen),
            }
        }
    }

    fn end(mut self) -> Option<i32> {
        self.child.wait().unwrap().code()
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        let _ = self.child.kill();
    }
}

/// Reads the screen on a thread of its own until the program is gone.
fn watch(mut screen: File) -> Receiver<Vec<u8>> {
    let (sender, receiver) = channel();
    thread::spawn(move || {
        let mut buffer = [0; 4096];
        while let Ok(count @ 1..) = screen.read(&mut buffer) {
            if sender.send(buffer[..count].to_vec()).is_err() {
                break;
            }
        }
    });
    receiver
}

#[test]
fn a_conversation_with_its_commands() {
    let home = Home::new();
    let saved = home.path().join("talk.json");
    let mut terminal =
        Terminal::open(&home, &["run", &llama(), "-n8", "--ignore-eos", "--seed", "5"]);
    terminal.wait_for("/help lists the commands");
    terminal.enter("/help", "Ctrl-C stops an answer");
    terminal.enter("room the request", "cut after 8 tokens");
    let settings = terminal.enter("/set", "min-tokens");
    assert!(settings.contains("temperature") && settings.contains("top-k"), "{settings}");
    terminal.enter("/system none", "there was no system message");
    terminal.enter("/set seed default", "temperature");
    let stats = terminal.enter("/stats", "in all");
    assert!(stats.contains("answer 8 tokens"), "{stats}");
    terminal.enter("\"\"\"first\rsecond\"\"\"", "\n");
    terminal.enter("/set temperature hot", "invalid value 'hot'");
    terminal.enter("/set top_k 3", "top-k");
    terminal.enter(&format!("/save {}", text(&saved)), "saved to");
    terminal.enter("/undo", "taken back: first");
    terminal.enter("/nonsense", "unknown command /nonsense");
    terminal.wait_for("> ");
    terminal.type_in("/quit\r");
    assert_eq!(terminal.end(), Some(0));

    let talk: serde_json::Value = serde_json::from_slice(&fs::read(saved).unwrap()).unwrap();
    assert_eq!(talk["messages"][0]["content"], "room the request");
    assert_eq!(talk["messages"][1]["role"], "assistant");
    assert_eq!(talk["messages"][2]["content"], "first\nsecond");
    let history = fs::read_to_string(home.path().join(".local/state/tokenmill/history")).unwrap();
    assert!(history.contains("room the request"), "{history}");
}

#[test]
fn an_interrupt_stops_the_answer_and_the_talk_goes_on() {
    let home = Home::new();
    let mut terminal = Terminal::open(&home, &["run", &llama(), "--ignore-eos", "-n4000"]);
    terminal.wait_for("/help lists the commands");
    // What the editor echoes ends before the answer's first line begins.
    terminal.enter("hi", "\n");
    while terminal.seen.len() < 20 {
        let more = terminal.screen.recv().unwrap();
        terminal.seen.push_str(&String::from_utf8_lossy(&more));
    }
    signal(&terminal.child, "INT");
    terminal.wait_for("stopped");
    terminal.enter("/stats", "ended by Ctrl-C");
    terminal.wait_for("> ");
    terminal.type_in("\u{3}");
    terminal.wait_for("Ctrl-C again");
    terminal.wait_for("> ");
    terminal.type_in("\u{3}");
    assert_eq!(terminal.end(), Some(0));
}

#[test]
fn bytes_that_are_no_text_do_not_end_the_talk() {
    let home = Home::new();
    let mut terminal = Terminal::open(&home, &["run", &llama(), "-n3", "--ignore-eos"]);
    terminal.wait_for("/help lists the commands");
    terminal.wait_for("> ");
    terminal.keyboard.write_all(b"\xff\r").unwrap();
    terminal.wait_for("not UTF-8");
    terminal.enter("/stats", "no answer yet");
    terminal.wait_for("> ");
    terminal.type_in("\u{4}");
    assert_eq!(terminal.end(), Some(0));
}

#[test]
fn end_of_input_leaves() {
    let home = Home::new();
    let mut terminal = Terminal::open(&home, &["run", &llama(), "--no-history"]);
    terminal.wait_for("/help lists the commands");
    terminal.wait_for("> ");
    terminal.type_in("\u{4}");
    assert_eq!(terminal.end(), Some(0));
    assert!(!home.path().join(".local").exists());
}
