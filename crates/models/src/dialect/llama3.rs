//! Llama 3.1 and later, in their JSON form.
//!
//! ```text
//! {"name": "tool", "parameters": {"key": "value"}}; {"name": "tool", "parameters": {}}
//! ```
//!
//! `<|python_tag|>` may stand before the first call. Without it a call must be the whole answer: a brace after other text is
//! text. An object of other keys is an answer in JSON, and so is one without parameters.

use super::{
    Calls, Dialect, Ids, InlineCalls,
    call::{CallReader, ObjectCall, Step},
    json::is_space,
    sink::Sink,
};

const TAG: &str = "<|python_tag|>";
const BRACE: &str = "{";

pub(super) static LLAMA3: Dialect = Dialect {
    name: "llama3",
    calls: Some(Calls {
        names: &["llama3_json", "llama3", "llama4_json"],
        told_by: tells_of_calls,
        marks: &[TAG],
        ids: Ids::Long,
        inline: Some(InlineCalls {
            openings: &[TAG],
            bare: Some(BRACE),
            reader: |opening| Box::new(Reader::after(opening)),
        }),
    }),
    reasoning: None,
};

/// Llama 3 without tools has the same header tokens; what its tool templates add is the word for arguments.
fn tells_of_calls(template: &str) -> bool {
    let header = ["<|start_header_id|>", "<|header_start|>"];
    let call = [TAG, r#""parameters": "#];
    let has = |marks: [&str; 2]| marks.iter().any(|mark| template.contains(mark));
    has(header) && has(call)
}

#[derive(Debug)]
struct Reader {
    at: At,
    call: ObjectCall,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum At {
    Call,
    /// After a call.
    Semicolon,
}

impl Reader {
    fn after(opening: &str) -> Self {
        let mut call = ObjectCall::with_arguments();
        if opening == BRACE {
            // An opening brace tells nothing yet.
            call.open();
        }
        Reader { at: At::Call, call }
    }
}

impl CallReader for Reader {
    fn push(&mut self, c: char, sink: &mut Sink) -> Step {
        match self.at {
            At::Call => match self.call.push(c, sink) {
                Step::Done => {
                    *self = Reader { at: At::Semicolon, call: ObjectCall::with_arguments() };
                    Step::Complete
                }
                step => step,
            },
            At::Semicolon if is_space(c) => Step::More,
            At::Semicolon if c == ';' => {
                self.at = At::Call;
                Step::More
            }
            // Some put calls one below the other.
            At::Semicolon if c == '{' => {
                self.at = At::Call;
                self.call.push(c, sink)
            }
            At::Semicolon => Step::Over,
        }
    }

    fn finish(&mut self, _sink: &mut Sink) -> bool {
        self.at == At::Semicolon
    }
}
