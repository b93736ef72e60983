//! A model's vocabulary as the compiler needs it: a trie of what its tokens spell, made once.

use std::{
    collections::VecDeque,
    fmt,
    sync::{Arc, Mutex, PoisonError},
    thread,
};

use foundation::TokenId;
use llguidance::{
    Matcher, ParserFactory,
    api::{ParserLimits, TopLevelGrammar},
    earley::SlicedBiasComputer,
    toktrie::{ApproximateTokEnv, InferenceCapabilities, TokEnv, TokRxInfo, TokTrie},
};
use runtime::sampling::TokenMask;

use crate::{Compiled, Constraint, GrammarError};

/// What a token spells.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TokenSpelling {
    /// Its bytes in the middle of a text; empty: it is no text (a control token), and no constraint allows it.
    pub bytes: Vec<u8>,
    /// At the beginning of a text it spells something else (loses a space, say), so that no constrained text begins with it.
    pub differs_at_start: bool,
}

/// A model's vocabulary, ready for constraints.
pub struct Vocabulary {
    factory: ParserFactory,
    tokens: Arc<Tokens>,
    /// What was compiled last, the latest first.
    cache: Mutex<VecDeque<(Constraint, Compiled)>>,
    /// Held while compiling: what a compilation takes is bounded, and thereby what all take.
    compiler: Mutex<()>,
}

/// Constraints that are kept.
const CACHED: usize = 16;
/// Stack of the thread that compiles: the compiler recurses with the nesting of its source, which is bounded too.
const STACK_BYTES: usize = 64 << 20;

/// Which tokens are what, as masks.
pub(crate) struct Tokens {
    /// Tokens that are text.
    text: Vec<u32>,
    /// Of these, the ones that may begin a text.
    first: Vec<u32>,
    /// Tokens that end the output; one at least.
    ends: Vec<TokenId>,
    /// Every token but the ends.
    without_ends: TokenMask,
}

impl Vocabulary {
    /// The vocabulary of a model with logits for `vocab_size` tokens, of which the first ones spell `spellings`; `ends` end its
    /// output.
    ///
    /// # Errors
    /// [`GrammarError::Unsupported`] where a constraint could not be honoured: there is no end token, say.
    pub fn new(
        spellings: &[TokenSpelling],
        vocab_size: usize,
        ends: &[TokenId],
    ) -> Result<Self, GrammarError> {
        let tokens = Tokens::new(spellings, vocab_size, ends)?;
        let mut bytes: Vec<Vec<u8>> = spellings.iter().map(|token| token.bytes.clone()).collect();
        bytes.resize(vocab_size, Vec::new());
        for end in ends {
            bytes[end.0 as usize] = Vec::new();
        }
        // The trie takes what begins so for a control token; no text does.
        bytes.iter_mut().filter(|bytes| bytes.first() == Some(&0xFF)).for_each(Vec::clear);
        let info = TokRxInfo::new(vocab_size as u32, tokens.end().0);
        let trie = TokTrie::from(&info, &bytes);
        let environment: TokEnv = Arc::new(ApproximateTokEnv::new(trie));
        let slices = SlicedBiasComputer::general_slices();
        let factory = ParserFactory::new(&environment, InferenceCapabilities::default(), &slices);
        let mut factory = factory.map_err(GrammarError::compile)?;
        factory.quiet();
        *factory.limits_mut() = limits();
        Ok(Vocabulary {
            factory,
            tokens: Arc::new(tokens),
            cache: Mutex::default(),
            compiler: Mutex::new(()),
        })
    }

    /// Compiles a constraint, or finds it among the last ones. Takes processor time in milliseconds, and is bounded in source,
    /// time and memory.
    ///
    /// # Errors
    /// Why there is no such constraint, in words for whoever wrote it.
    pub fn compile(&self, constraint: &Constraint) -> Result<Compiled, GrammarError> {
        if let Some(compiled) = self.cached(constraint) {
            return Ok(compiled);
        }
        let source = constraint.source()?;
        let start = self.build(source)?;
        let compiled = Compiled::new(start, Arc::clone(&self.tokens));
        let mut cache = self.cache.lock().unwrap_or_else(PoisonError::into_inner);
        cache.push_front((constraint.clone(), compiled.clone()));
        cache.truncate(CACHED);
        Ok(compiled)
    }

    fn cached(&self, constraint: &Constraint) -> Option<Compiled> {
        let mut cache = self.cache.lock().unwrap_or_else(PoisonError::into_inner);
        let place = cache.iter().position(|(known, _)| known == constraint)?;
        let entry = cache.remove(place)?;
        let compiled = entry.1.clone();
        cache.push_front(entry);
        Some(compiled)
    }

    /// On a thread of its own, with a stack that is large enough for any source that is let in.
    fn build(&self, source: TopLevelGrammar) -> Result<Matcher, GrammarError> {
        let _turn = self.compiler.lock().unwrap_or_else(PoisonError::into_inner);
        let work = || {
            let mut matcher = Matcher::new(self.factory.create_parser(source));
            // The lexer's first states are made by the first mask, for all who will follow.
            match matcher.get_error() {
                Some(error) => Err(GrammarError::compile(error)),
                None => {
                    matcher.compute_mask_or_eos().map(|_| matcher).map_err(GrammarError::compile)
                }
            }
        };
        let built = thread::scope(|scope| {
            let thread = thread::Builder::new().name("grammar".into()).stack_size(STACK_BYTES);
            thread.spawn_scoped(scope, work).map(thread::ScopedJoinHandle::join)
        });
        match built {
            Ok(Ok(result)) => result,
            Ok(Err(_)) => Err(GrammarError::Compile("the compiler gives up on it".into())),
            Err(error) => Err(GrammarError::compile(error)),
        }
    }
}

impl fmt::Debug for Vocabulary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Vocabulary").finish_non_exhaustive()
    }
}

/// Bounds of compilation and of each mask. A state of the lexer takes one or two kilobytes, a unit of fuel some 20 to 70 ns.
fn limits() -> ParserLimits {
    ParserLimits {
        initial_lexer_fuel: 500_000,
        step_lexer_fuel: 100_000,
        step_max_items: 30_000,
        max_items_in_row: 2_000,
        max_lexer_states: 20_000,
        max_grammar_size: 100_000,
        precompute_large_lexemes: false,
        verbose_errors: false,
    }
}

impl Tokens {
    fn new(
        spellings: &[TokenSpelling],
        vocab_size: usize,
        ends: &[TokenId],
    ) -> Result<Self, GrammarError> {
        if ends.is_empty() {
            let text = "the model names no token that ends its output, so that nothing could end it in time";
            return Err(GrammarError::Unsupported(text.into()));
        }
        let fits = ends.iter().all(|end| (end.0 as usize) < vocab_size);
        if spellings.len() > vocab_size || !fits {
            let text =
                format!("{} tokens are spelled, the model has {vocab_size}", spellings.len());
            return Err(GrammarError::Unsupported(text));
        }
        let (mut text, mut first) = (empty(vocab_size), empty(vocab_size));
        for (id, token) in (0..).map(TokenId).zip(spellings) {
            if token.bytes.is_empty() || ends.contains(&id) {
                continue;
            }
            set(&mut text, id);
            if !token.differs_at_start {
                set(&mut first, id);
            }
        }
        let mut without_ends = empty(vocab_size);
        (0..vocab_size as u32).map(TokenId).for_each(|id| set(&mut without_ends, id));
        ends.iter().for_each(|end| clear(&mut without_ends, *end));
        Ok(Tokens { text, first, ends: ends.to_vec(), without_ends: without_ends.into() })
    }

    /// The end token that the compiler knows.
    pub(crate) fn end(&self) -> TokenId {
        self.ends[0]
    }

    pub(crate) fn without_ends(&self) -> TokenMask {
        Arc::clone(&self.without_ends)
    }

    /// Of what a grammar allows the tokens that are text, and the ends where it may end.
    pub(crate) fn mask(&self, allowed: &[u32], first: bool, ends: bool) -> TokenMask {
        let known = if first { &self.first } else { &self.text };
        let allowed = allowed.iter().copied().chain(std::iter::repeat(0));
        let mut words: Vec<u32> = known.iter().zip(allowed).map(|(a, b)| a & b).collect();
        if ends {
            self.ends.iter().for_each(|end| set(&mut words, *end));
        }
        words.into()
    }
}

fn empty(vocab_size: usize) -> Vec<u32> {
    vec![0; vocab_size.div_ceil(32)]
}

fn set(words: &mut [u32], token: TokenId) {
    words[token.0 as usize / 32] |= 1 << (token.0 % 32);
}

fn clear(words: &mut [u32], token: TokenId) {
    words[token.0 as usize / 32] &= !(1 << (token.0 % 32));
}
