//! What an answer says, piece by piece.

/// A piece of an answer. Neighbouring pieces of one kind may be cut anywhere; joined, they are the same for every way of
/// cutting the stream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DialectEvent {
    /// More of the reasoning.
    Reasoning(String),
    /// More of the answer proper.
    Content(String),
    /// A call begins.
    ToolCallStart {
        /// Which call of the answer; counts from 0.
        index: usize,
        /// A name for it that no other call of the conversation has.
        id: String,
        /// The tool, as the model spelled it.
        name: String,
    },
    /// More of a call's arguments: the text of a JSON object.
    ToolCallArguments {
        /// Which call.
        index: usize,
        /// What is new.
        delta: String,
    },
    /// A call is complete; its arguments are a JSON object.
    ToolCallEnd {
        /// Which call.
        index: usize,
    },
    /// What was told of a call is no call after all: it broke off, or its arguments are no JSON. The text that the model
    /// wrote follows as content.
    ToolCallWithdrawn {
        /// Which call. Its number is not used again.
        index: usize,
    },
}
