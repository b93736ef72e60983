//! Constraints on a generation: against which vocabulary they are compiled, where they begin, what they exclude.

use std::sync::{Arc, OnceLock};

use grammar::{Constraint, GrammarError, TokenSpelling, Vocabulary};
use models::prompt::Spelled;
use runtime::sampling::SharedConstraint;

use crate::{
    error::{Error, Result},
    generation::DialectRules,
    model::Model,
    options::GenerateOptions,
};

/// The field that errors name.
const FIELD: &str = "constraint";

/// The vocabulary of one model, made when the first constraint comes.
pub(crate) type LazyVocabulary = OnceLock<std::result::Result<Vocabulary, GrammarError>>;

impl Model {
    /// Compiles `constraint` without using it: whether a request that has it would be taken in. Processor time in
    /// milliseconds; the first time for a model also that of reading its vocabulary.
    ///
    /// # Errors
    /// [`Error::InvalidRequest`] with what the compiler says, [`Error::NoTokenizer`].
    pub fn check_constraint(&self, constraint: &Constraint) -> Result<()> {
        self.vocabulary()?.compile(constraint).map(drop).map_err(refused)
    }

    /// What the engine is to hold an output against.
    pub(crate) fn shared_constraint(
        &self,
        options: &GenerateOptions,
        dialect: Option<&DialectRules>,
    ) -> Result<Option<SharedConstraint>> {
        let Some(constraint) = &options.constraint else { return Ok(None) };
        check_company(options)?;
        let mut compiled = self.vocabulary()?.compile(constraint).map_err(refused)?;
        if let Some(rules) = dialect {
            let mark = rules.selection.reasoning_close().ok_or_else(|| {
                let text = "where this model's reasoning ends is not known, nor where a constraint would begin";
                Error::invalid(FIELD, text)
            })?;
            let token = self.tokenizer().and_then(|tokenizer| tokenizer.token_id(mark));
            compiled = compiled.after(mark, token);
        }
        Ok(Some(SharedConstraint(Arc::new(compiled))))
    }

    /// How the answer to a constrained chat is read: all is content, unless the prompt leaves off within the reasoning.
    pub(crate) fn constrained_dialect(&self, rules: DialectRules) -> Result<Option<DialectRules>> {
        if rules.calls {
            return Err(Error::invalid("tools", "are not allowed together with a constraint"));
        }
        if rules.selection.reads_messages() {
            let text = "this model writes messages with headers, which a constraint would forbid";
            return Err(Error::invalid(FIELD, text));
        }
        Ok(rules.reasoning_open.then_some(rules))
    }

    fn vocabulary(&self) -> Result<&Vocabulary> {
        let vocabulary = self.lazy_vocabulary();
        let tokenizer = self.need_tokenizer("a constraint")?;
        let made = vocabulary.get_or_init(|| {
            let spelled = tokenizer.spelled().ok_or_else(|| {
                let text = "the tokens of this tokenizer spell text in company only";
                GrammarError::Unsupported(text.into())
            })?;
            let vocab_size = self.info().vocab_size;
            let spellings: Vec<TokenSpelling> =
                spelled.into_iter().take(vocab_size).map(spelling).collect();
            Vocabulary::new(&spellings, vocab_size, &self.generation_defaults().eos_token_ids)
        });
        made.as_ref().map_err(|error| refused(error.clone()))
    }
}

fn spelling(token: Spelled) -> TokenSpelling {
    TokenSpelling { bytes: token.bytes, differs_at_start: token.differs_at_start }
}

fn refused(error: GrammarError) -> Error {
    Error::invalid(FIELD, error.to_string())
}

/// What asks for a text that goes on where a constraint ends it.
fn check_company(options: &GenerateOptions) -> Result<()> {
    let text = "is not allowed together with a constraint, which decides where the text may end";
    let fields = [
        ("ignore_eos", options.ignore_eos),
        ("min_tokens", options.min_tokens.is_some_and(|tokens| tokens > 0)),
    ];
    let findings = fields.into_iter().filter(|(_, given)| *given);
    let findings = findings.map(|(field, _)| (field.to_owned(), text.to_owned())).collect();
    Error::findings(findings).map_or(Ok(()), Err)
}
