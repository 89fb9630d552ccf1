//! The grammar in `docs/poly.md` is that of the parser: what it derives is parsed, and it derives all examples.

use crate::syntax::Function;
use proc_macro2::{Delimiter, TokenStream, TokenTree};
use proptest::prelude::*;
use std::collections::{BTreeSet, HashMap};
use std::fs;
use std::path::{Path, PathBuf};

/// A part of a rule.
#[derive(Clone, Debug)]
enum Part {
    /// The tokens of a literal.
    Literal(Vec<String>),
    Rule(String),
    OneOf(Vec<Part>),
    All(Vec<Part>),
    /// The least and the greatest number of times, and the separator.
    Repeated(Box<Part>, usize, usize, Option<&'static str>),
}

struct Grammar(HashMap<String, Part>);

/// The most that a repetition without an end is repeated in a derivation.
const MANY: usize = 2;

fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

/// The tokens of a text, with delimiters and joined punctuation as tokens.
fn tokens(text: &str) -> Vec<String> {
    fn add(stream: TokenStream, all: &mut Vec<String>) {
        for token in stream {
            match token {
                TokenTree::Group(group) => {
                    let [open, close] = match group.delimiter() {
                        Delimiter::Parenthesis => ["(", ")"],
                        Delimiter::Brace => ["{", "}"],
                        Delimiter::Bracket => ["[", "]"],
                        Delimiter::None => ["", ""],
                    };
                    all.push(open.into());
                    add(group.stream(), all);
                    all.push(close.into());
                }
                TokenTree::Punct(sign) => all.push(sign.as_char().to_string()),
                other => all.push(other.to_string()),
            }
        }
    }
    // A delimiter or an operator alone, as in the rules.
    let mut all = Vec::new();
    match text.parse::<TokenStream>() {
        Ok(stream) => add(stream, &mut all),
        Err(_) => all.push(text.to_owned()),
    }
    all
}

impl Grammar {
    /// The rules in the page.
    fn read() -> Self {
        let page = fs::read_to_string(repository().join("docs/poly.md")).expect("the page");
        let (_, rest) = page.split_once("## Grammar").expect("a section");
        let (_, rest) = rest.split_once("```text\n").expect("a block");
        let (rules, _) = rest.split_once("```").expect("an end");
        let mut texts: Vec<(String, String)> = Vec::new();
        for line in rules.lines() {
            match line.split_once(" = ").filter(|_| !line.starts_with(' ')) {
                Some((name, rule)) => texts.push((name.trim().into(), rule.into())),
                None => texts.last_mut().expect("a rule").1.push_str(line),
            }
        }
        let rule = |(name, text): (String, String)| {
            let words = words(&text);
            let mut at = 0;
            let rule = one_of(&words, &mut at);
            assert_eq!(at, words.len(), "{name} = {text}");
            (name, rule)
        };
        Self(texts.into_iter().map(rule).collect())
    }

    /// Some text that a part derives.
    fn derive(&self, part: &Part, depth: usize, below: &mut dyn FnMut(usize) -> usize, text: &mut String) {
        match part {
            Part::Literal(tokens) => tokens.iter().for_each(|token| text.push_str(token)),
            Part::Rule(name) => {
                text.push(' ');
                match self.0.get(name) {
                    // The parser knows the names of parameters.
                    Some(_) if name == "result" => self.derive(&Part::Rule("tensor".into()), depth + 1, below, text),
                    Some(rule) => self.derive(rule, depth + 1, below, text),
                    None => text.push_str(match &**name {
                        "name" => ["A", "n", "x_2", "r#in"][below(4)],
                        "number" => ["0", "17", "0.5", "1e-9"][below(4)],
                        "type" => ["T", "f32", "i64"][below(3)],
                        other => panic!("no rule `{other}`"),
                    }),
                }
                text.push(' ');
            }
            // Deep down, the part that ends soonest.
            Part::OneOf(parts) if depth > 12 => {
                let shortest = parts.iter().min_by_key(|part| self.height(part, 0)).expect("a part");
                self.derive(shortest, depth, below, text);
            }
            Part::OneOf(parts) => self.derive(&parts[below(parts.len())], depth, below, text),
            Part::All(parts) => parts.iter().for_each(|part| self.derive(part, depth, below, text)),
            Part::Repeated(part, least, most, between) => {
                let more = if depth > 12 { 0 } else { below((*most).min(least + MANY) - least + 1) };
                for nth in 0..least + more {
                    if nth > 0 {
                        text.push_str(between.unwrap_or_default());
                    }
                    self.derive(part, depth, below, text);
                }
            }
        }
    }

    /// The rules within rules that a part needs at least.
    fn height(&self, part: &Part, above: usize) -> usize {
        match part {
            _ if above > 9 => usize::MAX / 2,
            Part::Literal(_) => 0,
            Part::Rule(name) => self.0.get(name).map_or(0, |rule| 1 + self.height(rule, above + 1)),
            Part::OneOf(parts) => parts.iter().map(|part| self.height(part, above)).min().unwrap_or(0),
            Part::All(parts) => parts.iter().map(|part| self.height(part, above)).max().unwrap_or(0),
            Part::Repeated(part, least, ..) => {
                if *least == 0 {
                    0
                } else {
                    self.height(part, above)
                }
            }
        }
    }

    /// Where a part may end that begins at a token.
    fn ends(
        &self,
        part: &Part,
        text: &[String],
        from: usize,
        known: &mut HashMap<(String, usize), BTreeSet<usize>>,
    ) -> BTreeSet<usize> {
        match part {
            Part::Literal(tokens) => match text[from..].starts_with(tokens) {
                true => [from + tokens.len()].into(),
                false => BTreeSet::new(),
            },
            Part::Rule(name) => {
                let key = (name.clone(), from);
                if let Some(ends) = known.get(&key) {
                    return ends.clone();
                }
                let ends = match self.0.get(name) {
                    Some(rule) => self.ends(rule, text, from, known),
                    None => terminal(name, text, from),
                };
                known.insert(key, ends.clone());
                ends
            }
            Part::OneOf(parts) => parts.iter().flat_map(|part| self.ends(part, text, from, known)).collect(),
            Part::All(parts) => parts.iter().fold([from].into(), |starts: BTreeSet<usize>, part| {
                starts.into_iter().flat_map(|from| self.ends(part, text, from, known)).collect()
            }),
            Part::Repeated(part, least, most, between) => {
                let mut all: BTreeSet<usize> = if *least == 0 { [from].into() } else { BTreeSet::new() };
                let mut last: BTreeSet<usize> = [from].into();
                for nth in 1..=*most {
                    let starts = last.iter().filter_map(|&from| match between {
                        Some(sign) if nth > 1 => (text.get(from)? == sign).then_some(from + 1),
                        _ => Some(from),
                    });
                    let next =
                        starts.collect::<Vec<_>>().into_iter().flat_map(|from| self.ends(part, text, from, known));
                    last = next.filter(|end| !all.contains(end)).collect();
                    if last.is_empty() {
                        break;
                    }
                    if nth >= *least {
                        all.extend(&last);
                    }
                }
                all
            }
        }
    }
}

/// Where a part without a rule ends.
fn terminal(name: &str, text: &[String], from: usize) -> BTreeSet<usize> {
    let Some(token) = text.get(from) else { return BTreeSet::new() };
    let is_number = token.starts_with(|c: char| c.is_ascii_digit());
    let is_name = token.starts_with(|c: char| c.is_alphabetic() || c == '_') && token != "let" && token != "for";
    let fits = match name {
        "number" => is_number,
        "name" | "type" | "parameter" => is_name,
        // Anything up to the end of its parentheses, or of the formula.
        "step" | "formula" => {
            let mut depth = 0;
            let end = text[from..].iter().position(|token| {
                depth += i32::from(["(", "[", "{"].contains(&&**token));
                let ends = depth == 0 && [",", ";", "}", ")"].contains(&&**token);
                depth -= i32::from([")", "]", "}"].contains(&&**token));
                ends || name == "step" && depth == 0 && token == ")"
            });
            return end.map(|end| from + end + usize::from(name == "step")).into_iter().collect();
        }
        _ => panic!("no rule `{name}`"),
    };
    if fits { [from + 1].into() } else { BTreeSet::new() }
}

/// The words of a rule: literals in quotes, names and signs.
fn words(text: &str) -> Vec<String> {
    let (mut all, mut rest) = (Vec::new(), text.trim_start());
    while let Some(first) = rest.chars().next() {
        let len = match first {
            '"' => 2 + rest[1..].find('"').expect("an end"),
            _ if rest.starts_with(", ..") => 4,
            _ if first.is_alphanumeric() => rest.find(|c: char| !c.is_alphanumeric()).unwrap_or(rest.len()),
            _ => first.len_utf8(),
        };
        all.push(rest[..len].to_owned());
        rest = rest[len..].trim_start();
    }
    all
}

fn one_of(words: &[String], at: &mut usize) -> Part {
    let mut parts = vec![all(words, at)];
    while words.get(*at).is_some_and(|word| word == "|") {
        *at += 1;
        parts.push(all(words, at));
    }
    if parts.len() == 1 { parts.remove(0) } else { Part::OneOf(parts) }
}

fn all(words: &[String], at: &mut usize) -> Part {
    let mut parts = Vec::new();
    while let Some(word) = words.get(*at).filter(|word| !["|", ")"].contains(&&***word)) {
        *at += 1;
        let part = match word.strip_prefix('"') {
            Some(literal) => Part::Literal(tokens(literal.trim_end_matches('"'))),
            None if word == "(" => {
                let inner = one_of(words, at);
                *at += 1;
                inner
            }
            None => Part::Rule(word.clone()),
        };
        let (least, most, between) = match words.get(*at).map(String::as_str) {
            Some("*") => (0, usize::MAX, None),
            Some("+") => (1, usize::MAX, None),
            Some("?") => (0, 1, None),
            Some(", ..") => (1, usize::MAX, Some(",")),
            _ => {
                parts.push(part);
                continue;
            }
        };
        *at += 1;
        parts.push(Part::Repeated(Box::new(part), least, most, between));
    }
    Part::All(parts)
}

#[test]
fn the_grammar_derives_all_examples() {
    let grammar = Grammar::read();
    let folder = repository().join("examples/poly");
    let files = fs::read_dir(folder).expect("examples").map(|file| file.expect("a file").path());
    let mut texts: Vec<(String, String)> =
        files.map(|path| (path.display().to_string(), fs::read_to_string(&path).expect("a text"))).collect();
    for page in ["poly.md", "blocks.md", "reductions.md"] {
        let text = fs::read_to_string(repository().join("docs").join(page)).expect("a page");
        let blocks = text.split("```poly").skip(1).filter_map(|rest| rest.split_once('\n')?.1.split_once("```"));
        texts.extend(blocks.map(|(block, _)| (page.to_owned(), block.to_owned())));
    }
    texts.push(("the reductions that are known".into(), crate::reductions::BUILT_IN.to_owned()));
    assert!(texts.len() > 20);
    for (name, text) in texts {
        let tokens = tokens(&text);
        let ends = grammar.ends(&Part::Rule("file".into()), &tokens, 0, &mut HashMap::new());
        let at = ends.last().copied().unwrap_or(0);
        assert!(at == tokens.len(), "{name} is derived up to: {}", tokens[at..].join(" "));
    }
}

#[test]
fn what_is_no_text_is_not_derived() {
    let grammar = Grammar::read();
    for text in [
        "fn f() -> { }",
        "fn f(A: T) -> B: T { B = A[ } auto",
        "fn f(A: T) -> B: T { B == A } auto",
        "mesh(x: 2)",
        "fn f(A: T) -> B: T { B = if A { 1 } else { 2 } } auto",
    ] {
        let tokens = tokens(text);
        let ends = grammar.ends(&Part::Rule("file".into()), &tokens, 0, &mut HashMap::new());
        assert!(!ends.contains(&tokens.len()), "{text}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 256, ..ProptestConfig::default() })]

    #[test]
    fn the_parser_reads_what_the_grammar_derives(choices in prop::collection::vec(any::<u32>(), 400)) {
        let (grammar, mut text) = (Grammar::read(), String::new());
        let mut choices = choices.into_iter();
        let mut below = |end: usize| choices.next().map_or(0, |choice| choice as usize % end);
        grammar.derive(&Part::Rule("block".into()), 0, &mut below, &mut text);
        if let Err(error) = syn::parse_str::<Function>(&text) {
            panic!("{error}\n{text}");
        }
    }
}
