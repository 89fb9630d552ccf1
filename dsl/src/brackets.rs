//! Finds the unmatched bracket, or the quote or comment without an end, that keeps a text from having tokens.
//!
//! Tokens are nested by matching brackets, so if one is missing nothing else is known. It is found as a reader would find it: the
//! bracket opened last must be closed first. Comments and quoted texts, as in Rust, are skipped; one without an end hides all brackets
//! after it, so it is reported instead of the brackets that are still open.

use std::ops::Range;

/// The brackets, each with its partner.
const PAIRS: [(char, char); 3] = [('(', ')'), ('[', ']'), ('{', '}')];

/// An unmatched bracket, quote or comment.
pub(crate) struct Unmatched {
    /// Where it is in the text, in bytes.
    pub(crate) at: Range<usize>,
    /// What is wrong.
    pub(crate) message: String,
    /// What to do.
    pub(crate) help: String,
}

impl Unmatched {
    /// The error on `begin` at this byte, which is never closed.
    fn open(at: usize, begin: &str, end: &str, what: &str) -> Self {
        Self {
            at: at..at + begin.len(),
            message: format!("`{begin}` is not closed"),
            help: format!("write `{end}` where {what} ends"),
        }
    }
}

/// Returns the first quote or comment without an end, or bracket that is not closed, closed by another kind, or closes nothing.
pub(crate) fn unmatched(text: &str) -> Option<Unmatched> {
    let is_open = |(at, open, close): (usize, char, char)| {
        Unmatched::open(at, open.encode_utf8(&mut [0; 4]), close.encode_utf8(&mut [0; 4]), "it")
    };
    let mut open: Vec<(usize, char, char)> = Vec::new();
    let mut at = 0;
    while let Some(letter) = text[at..].chars().next() {
        match quoted(&text[at..]) {
            Some(Quoted::Ends(len)) => {
                at += len;
                continue;
            }
            Some(Quoted::Open { begin, end, what }) => return Some(Unmatched::open(at, begin, end, what)),
            None => {}
        }
        if let Some(&(bracket, close)) = PAIRS.iter().find(|pair| pair.0 == letter) {
            open.push((at, bracket, close));
        } else if PAIRS.iter().any(|pair| pair.1 == letter) {
            match open.pop() {
                Some((.., close)) if close == letter => {}
                Some(other) => return Some(is_open(other)),
                None => {
                    let help = "leave it out, or write its opening bracket".into();
                    return Some(Unmatched { at: at..at + 1, message: format!("`{letter}` closes nothing"), help });
                }
            }
        }
        at += letter.len_utf8();
    }
    open.pop().map(is_open)
}

/// A comment, a quoted text or a quoted character.
enum Quoted {
    /// It has this many bytes.
    Ends(usize),
    /// It has no end.
    Open { begin: &'static str, end: &'static str, what: &'static str },
}

/// The comment, quoted text or quoted character at the start of a text.
fn quoted(text: &str) -> Option<Quoted> {
    if text.starts_with("//") {
        return Some(Quoted::Ends(text.find('\n').unwrap_or(text.len())));
    }
    if text.starts_with("/*") {
        let open = Quoted::Open { begin: "/*", end: "*/", what: "the comment" };
        return Some(comment(text).map_or(open, Quoted::Ends));
    }
    if let Some(inside) = text.strip_prefix('"') {
        let mut escaped = false;
        let closes = |(at, letter): (usize, char)| {
            let is_end = letter == '"' && !escaped;
            escaped = letter == '\\' && !escaped;
            is_end.then_some(at + 2)
        };
        let open = Quoted::Open { begin: "\"", end: "\"", what: "the quoted text" };
        return Some(inside.char_indices().find_map(closes).map_or(open, Quoted::Ends));
    }
    // `'(` may be the quote of a lifetime: a character also has one at its end.
    let mut letters = text.strip_prefix('\'')?.char_indices();
    let (_, letter) = letters.next()?;
    let (at, last) = letters.next()?;
    (letter != '\\' && last == '\'').then_some(Quoted::Ends(at + 2))
}

/// The length in bytes of a comment in `/*` and `*/`, which may be nested.
fn comment(text: &str) -> Option<usize> {
    let (mut depth, mut at) = (0_usize, 0);
    while let Some(two) = text.as_bytes().get(at..at + 2) {
        let inner = match two {
            b"/*" => depth + 1,
            b"*/" => depth - 1,
            _ => {
                at += 1;
                continue;
            }
        };
        (depth, at) = (inner, at + 2);
        if depth == 0 {
            return Some(at);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(text: &str, expected: Option<(usize, &str)>) {
        let found = unmatched(text);
        assert_eq!(
            found.as_ref().map(|found| (text[..found.at.start].chars().count() + 1, &*found.message)),
            expected,
            "{text}"
        );
    }

    #[test]
    fn the_bracket_that_was_opened_is_to_blame() {
        check("f(a, [b], {c})", None);
        check("f(a, [b)", Some((6, "`[` is not closed")));
        check(".shard(A, m @ x\n.tensorize([mi])", Some((7, "`(` is not closed")));
        check("f(a)) g(", Some((5, "`)` closes nothing")));
        check("{ B[i = A[i] }", Some((4, "`[` is not closed")));
    }

    #[test]
    fn brackets_in_comments_and_quotes_are_no_brackets() {
        check("f(a) // and (so on", None);
        check("f(a) /* ( /* [ */ { */ [b", Some((24, "`[` is not closed")));
        check("f(\"(\\\"(\", ')', 'é') (", Some((21, "`(` is not closed")));
    }

    #[test]
    fn quotes_and_comments_that_do_not_end_are_to_blame() {
        check("f(a /* [ */ /* (", Some((13, "`/*` is not closed")));
        check("f(a) /* /* */", Some((6, "`/*` is not closed")));
        check("f(é, \"[ b)", Some((6, "`\"` is not closed")));
        check("f(\"a\\\")", Some((3, "`\"` is not closed")));
        // A mistake before them is reported first.
        check("f(a] \"", Some((2, "`(` is not closed")));
    }
}
