//! The bracket that has no partner, in a text that has no tokens because of it.
//!
//! Tokens are cut by brackets that match, so where one is missing nothing else is known. It is found as a reader would: what was opened
//! last has to be closed first. Comments and quoted texts are left out, as Rust has them.

/// The brackets, each with its partner.
const PAIRS: [(char, char); 3] = [('(', ')'), ('[', ']'), ('{', '}')];

/// A bracket without a partner.
pub(crate) struct Unmatched {
    /// Where it is in the text, in bytes.
    pub(crate) at: usize,
    /// What is wrong.
    pub(crate) message: String,
    /// What to do.
    pub(crate) help: String,
}

/// Returns the first bracket that is closed by none, or by another one, or that closes none.
pub(crate) fn unmatched(text: &str) -> Option<Unmatched> {
    let is_open = |(at, open, close): (usize, char, char)| Unmatched {
        at,
        message: format!("`{open}` is not closed"),
        help: format!("write `{close}` where it ends"),
    };
    let mut open: Vec<(usize, char, char)> = Vec::new();
    let mut at = 0;
    while let Some(letter) = text[at..].chars().next() {
        if let Some(len) = quoted(&text[at..]) {
            at += len;
            continue;
        }
        if let Some(&(bracket, close)) = PAIRS.iter().find(|pair| pair.0 == letter) {
            open.push((at, bracket, close));
        } else if PAIRS.iter().any(|pair| pair.1 == letter) {
            match open.pop() {
                Some((.., close)) if close == letter => {}
                Some(other) => return Some(is_open(other)),
                None => {
                    let help = "leave it out, or write the bracket that it closes".into();
                    return Some(Unmatched { at, message: format!("`{letter}` closes nothing"), help });
                }
            }
        }
        at += letter.len_utf8();
    }
    open.pop().map(is_open)
}

/// The bytes of the comment, the quoted text or the quoted character with which a text begins; all of it where none ends it.
fn quoted(text: &str) -> Option<usize> {
    let end = |found: Option<usize>| Some(found.unwrap_or(text.len()));
    if text.starts_with("//") {
        return end(text.find('\n'));
    }
    if text.starts_with("/*") {
        return end(comment(text));
    }
    if let Some(inside) = text.strip_prefix('"') {
        let mut escaped = false;
        let closes = |(at, letter): (usize, char)| {
            let is_end = letter == '"' && !escaped;
            escaped = letter == '\\' && !escaped;
            is_end.then_some(at + 2)
        };
        return end(inside.char_indices().find_map(closes));
    }
    // `'(` may be a lifetime's quote: a character has one at its end too.
    let mut letters = text.strip_prefix('\'')?.char_indices();
    let (_, letter) = letters.next()?;
    let (at, last) = letters.next()?;
    (letter != '\\' && last == '\'').then_some(at + 2)
}

/// The bytes of a comment in `/*` and `*/`, in which there may be others.
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
            found.as_ref().map(|found| (text[..found.at].chars().count() + 1, &*found.message)),
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
        check("/* (", None);
    }
}
