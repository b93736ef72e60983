//! One Rust file as syntax: lengths, `unsafe`, names, and what clap makes of it.

use std::collections::{BTreeMap, BTreeSet};

use proc_macro2::{Span, TokenStream, TokenTree};
use syn::spanned::Spanned;
use syn::visit::{self, Visit};

use crate::error::Error;

/// What tidy wants to know about one Rust file.
#[derive(Debug, Default)]
pub struct Source {
    /// Lines outside `#[cfg(test)]` items.
    pub lines: usize,
    /// Lines of each function, by `Type::name` or `name`, from `fn` to its closing brace. Where
    /// several share a name (behind `cfg`), the longest.
    pub functions: BTreeMap<String, usize>,
    /// How often the keyword `unsafe` stands in the code, macros included; not in comments, texts.
    pub unsafes: usize,
    /// How often the code reads the environment: `env::var` and its kin.
    pub environment_reads: usize,
    /// Every identifier.
    pub names: BTreeSet<String>,
    /// The contents of every string literal without spaces: names of flags live in such literals.
    pub literals: BTreeSet<String>,
    /// Flags that clap derives from fields, without the dashes.
    pub flags: BTreeSet<String>,
    /// Subcommands that clap derives from variants.
    pub subcommands: BTreeSet<String>,
}

impl Source {
    /// Reads one file.
    pub fn parse(path: &str, text: &str) -> Result<Source, Error> {
        let malformed = |error: String| Error::Malformed { place: path.to_owned(), message: error };
        let file = syn::parse_file(text).map_err(|error| malformed(error.to_string()))?;
        let tokens: TokenStream = text
            .trim_start_matches('\u{feff}')
            .parse()
            .map_err(|error: proc_macro2::LexError| malformed(error.to_string()))?;

        let mut source = Source { lines: text.lines().count(), ..Source::default() };
        source.read_tokens(tokens);
        Reader { source: &mut source, owner: None, in_tests: false }.visit_file(&file);
        Ok(source)
    }

    fn read_tokens(&mut self, tokens: TokenStream) {
        for token in tokens {
            match token {
                TokenTree::Group(group) => self.read_tokens(group.stream()),
                TokenTree::Ident(ident) if ident == "unsafe" => self.unsafes += 1,
                TokenTree::Ident(ident) => {
                    self.names.insert(ident.to_string());
                }
                TokenTree::Literal(literal) => {
                    let text = literal.to_string();
                    let text = text.trim_matches('"');
                    if !text.contains(char::is_whitespace) {
                        self.literals.insert(text.to_owned());
                    }
                }
                TokenTree::Punct(_) => {}
            }
        }
    }
}

/// Walks the items of a file.
struct Reader<'a> {
    source: &'a mut Source,
    /// The type or trait whose methods are being read.
    owner: Option<String>,
    /// Whether an enclosing item is already left out as a test.
    in_tests: bool,
}

impl Reader<'_> {
    fn function(&mut self, signature: &syn::Signature, block: &syn::Block) {
        let name = match &self.owner {
            Some(owner) => format!("{owner}::{}", signature.ident),
            None => signature.ident.to_string(),
        };
        let first = signature.fn_token.span().start().line;
        let lines = block.brace_token.span.close().end().line + 1 - first;
        let longest = self.source.functions.entry(name).or_default();
        *longest = lines.max(*longest);
    }

    fn within(&mut self, owner: Option<String>, read: impl FnOnce(&mut Self)) {
        let outer = std::mem::replace(&mut self.owner, owner);
        read(self);
        self.owner = outer;
    }
}

impl<'ast> Visit<'ast> for Reader<'_> {
    fn visit_item(&mut self, item: &'ast syn::Item) {
        let outer = self.in_tests;
        if !outer && attributes(item).iter().any(is_cfg_test) {
            self.in_tests = true;
            self.source.lines = self.source.lines.saturating_sub(lines(item.span()));
        }
        visit::visit_item(self, item);
        self.in_tests = outer;
    }

    fn visit_item_fn(&mut self, item: &'ast syn::ItemFn) {
        self.function(&item.sig, &item.block);
        visit::visit_item_fn(self, item);
    }

    fn visit_item_impl(&mut self, item: &'ast syn::ItemImpl) {
        let owner = match &*item.self_ty {
            syn::Type::Path(path) => path.path.segments.last().map(|last| last.ident.to_string()),
            _ => None,
        };
        self.within(owner, |reader| visit::visit_item_impl(reader, item));
    }

    fn visit_item_trait(&mut self, item: &'ast syn::ItemTrait) {
        self.within(Some(item.ident.to_string()), |reader| visit::visit_item_trait(reader, item));
    }

    fn visit_impl_item_fn(&mut self, item: &'ast syn::ImplItemFn) {
        self.function(&item.sig, &item.block);
        visit::visit_impl_item_fn(self, item);
    }

    fn visit_trait_item_fn(&mut self, item: &'ast syn::TraitItemFn) {
        if let Some(block) = &item.default {
            self.function(&item.sig, block);
        }
        visit::visit_trait_item_fn(self, item);
    }

    fn visit_path(&mut self, path: &'ast syn::Path) {
        self.source.environment_reads += usize::from(!self.in_tests && reads_environment(path));
        visit::visit_path(self, path);
    }

    fn visit_field(&mut self, field: &'ast syn::Field) {
        if let Some(name) = &field.ident
            && field.attrs.iter().any(|attribute| mentions(attribute, "arg", "long"))
        {
            self.source.flags.insert(kebab(&name.to_string()));
        }
        visit::visit_field(self, field);
    }

    fn visit_item_enum(&mut self, item: &'ast syn::ItemEnum) {
        if item.attrs.iter().any(|attribute| mentions(attribute, "derive", "Subcommand")) {
            let names = item.variants.iter().map(|variant| kebab(&variant.ident.to_string()));
            self.source.subcommands.extend(names);
        }
        visit::visit_item_enum(self, item);
    }
}

/// Number of lines that a span touches.
fn lines(span: Span) -> usize {
    span.end().line + 1 - span.start().line
}

fn attributes(item: &syn::Item) -> &[syn::Attribute] {
    match item {
        syn::Item::Mod(item) => &item.attrs,
        syn::Item::Fn(item) => &item.attrs,
        syn::Item::Impl(item) => &item.attrs,
        syn::Item::Struct(item) => &item.attrs,
        syn::Item::Enum(item) => &item.attrs,
        syn::Item::Use(item) => &item.attrs,
        syn::Item::Const(item) => &item.attrs,
        _ => &[],
    }
}

fn is_cfg_test(attribute: &syn::Attribute) -> bool {
    match &attribute.meta {
        syn::Meta::List(list) => list.path.is_ident("cfg") && list.tokens.to_string() == "test",
        _ => false,
    }
}

/// Whether `#[list(... word ...)]`.
fn mentions(attribute: &syn::Attribute, list: &str, word: &str) -> bool {
    let syn::Meta::List(meta) = &attribute.meta else { return false };
    meta.path.is_ident(list)
        && meta.tokens.clone().into_iter().any(|token| match token {
            TokenTree::Ident(ident) => ident == word,
            _ => false,
        })
}

/// Whether the path is `env::var` or one of its kin. `std::env::args` is no setting.
fn reads_environment(path: &syn::Path) -> bool {
    let names: Vec<String> = path.segments.iter().map(|part| part.ident.to_string()).collect();
    match names.as_slice() {
        [.., module, function] => {
            module == "env" && matches!(function.as_str(), "var" | "var_os" | "vars" | "vars_os")
        }
        _ => false,
    }
}

/// `MaxModelLen` and `max_model_len` as clap writes them: `max-model-len`.
fn kebab(name: &str) -> String {
    let mut text = String::new();
    for letter in name.trim_start_matches("r#").chars() {
        match letter {
            '_' => text.push('-'),
            upper if upper.is_ascii_uppercase() => {
                if !text.is_empty() {
                    text.push('-');
                }
                text.push(upper.to_ascii_lowercase());
            }
            other => text.push(other),
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Source {
        Source::parse("a.rs", text).unwrap()
    }

    #[test]
    fn functions_are_measured_from_fn_to_brace_and_named_by_their_owner() {
        let source = read(
            "/// Comment\n#[inline]\nfn free() {\n  // }\n  let _ = \"}\";\n}\n\
             impl<T> Thing<T> {\n  fn method(&self) { }\n}\n\
             trait Can { fn does(&self) {\n } fn must(&self); }\n",
        );
        let expected = [("Can::does", 2), ("Thing::method", 1), ("free", 4)];
        let expected = expected.map(|(name, lines)| (name.to_owned(), lines));
        assert_eq!(source.functions, BTreeMap::from(expected));
    }

    #[test]
    fn test_modules_do_not_count_as_lines() {
        let source = read("fn a() {}\n\n#[cfg(test)]\nmod tests {\n  fn b() {}\n}\n");
        assert_eq!(source.lines, 2);
        assert!(source.functions.contains_key("b"));
    }

    #[test]
    fn unsafe_is_counted_in_code_and_macros_but_not_in_comments_and_texts() {
        let source = read(
            "// unsafe\n/// unsafe\nfn a() { let _ = \"unsafe\"; unsafe { b() } }\n\
             macro_rules! m { () => { unsafe { c() } }; }\n#[expect(unsafe_code)]\nunsafe fn d() {}",
        );
        assert_eq!(source.unsafes, 3);
    }

    #[test]
    fn reading_the_environment_is_counted_outside_tests() {
        let source = read(
            "fn a() { std::env::var(\"A\"); env::vars_os(); std::env::args(); env!(\"B\"); }\n\
             #[cfg(test)] mod tests { fn b() { std::env::var(\"A\"); } }",
        );
        assert_eq!(source.environment_reads, 2);
    }

    #[test]
    fn flags_and_subcommands_are_read_from_what_clap_derives() {
        let source = read(
            "#[derive(clap::Args)] struct A { #[arg(long, default_value = \"x\")] max_len: u32,\n\
             #[arg(short)] quiet: bool }\n#[derive(Subcommand)] enum C { Run, DryRun(A) }",
        );
        assert_eq!(source.flags, BTreeSet::from(["max-len".to_owned()]));
        assert_eq!(source.subcommands, BTreeSet::from(["run".to_owned(), "dry-run".to_owned()]));
    }

    #[test]
    fn a_file_that_does_not_parse_is_named() {
        let error = Source::parse("crates/a/src/b.rs", "fn (").unwrap_err();
        assert!(error.to_string().starts_with("crates/a/src/b.rs: "), "{error}");
    }
}
