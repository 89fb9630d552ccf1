//! Mutated inputs: bytes, numbers and words are changed, repeated, removed, or copied from other inputs.
//!
//! This module does not depend on the format of a target. Inputs with a new kind of answer are kept as material, so
//! that mutation gets past the first check to later ones.

use fastrand::Rng;
use std::ops::Range;

/// Numbers at which arithmetic changes: bounds of types, their square roots, primes, and texts that are not numbers.
const NUMBERS: &str = "0 1 2 3 4 5 7 8 16 64 -1 -0 0.5 255 256 1021 65536 1048576 2147483647 2147483648 4294967291 \
    4294967296 6148914691236517206 4611686014132420609 4611686018427387904 9223372036854775783 \
    9223372036854775807 9223372036854775808 -9223372036854775808 18446744073709551615 \
    18446744073709551616 1e18 1e308 1e-320 NaN inf";

/// Characters that have a meaning somewhere, or take several bytes.
const PIECES: [&str; 32] = [
    "\n", " ", "\t", "\0", "\"", "'", "\\", "/", "%", ":", ",", ";", "=", "_", "-", "->", "*", "+", "[", "]", "{", "}",
    "(", ")", "<", ">", "x", "é", "Ⅳ", "𝐗", "\u{2028}", "null",
];

/// Inputs to mutate.
pub(crate) struct Pool {
    /// Accepted inputs; never empty.
    pub(crate) valid: Vec<Vec<u8>>,
    /// Refused inputs.
    pub(crate) refused: Vec<Vec<u8>>,
}

impl Pool {
    /// Usually a valid one: mutations of a refused input are mostly refused for the same reason.
    fn choose(&self, rng: &mut Rng) -> &[u8] {
        let from = if self.refused.is_empty() || rng.u8(..) < 216 { &self.valid } else { &self.refused };
        &from[rng.usize(..from.len())]
    }
}

/// Returns a mutation of inputs in `pool`, of at most `longest` bytes.
pub(crate) fn mutated(rng: &mut Rng, pool: &Pool, longest: usize) -> Vec<u8> {
    let mut bytes = pool.choose(rng).to_vec();
    loop {
        let other = pool.choose(rng);
        mutate(rng, &mut bytes, other);
        bytes.truncate(longest);
        // Usually one change, so that the rest of the input stays valid.
        if rng.u8(..) < 180 {
            return bytes;
        }
    }
}

fn mutate(rng: &mut Rng, bytes: &mut Vec<u8>, other: &[u8]) {
    match rng.u8(..20) {
        0 if !bytes.is_empty() => {
            let at = rng.usize(..bytes.len());
            bytes[at] ^= 1 << rng.u8(..8);
        }
        1 if !bytes.is_empty() => {
            let at = rng.usize(..bytes.len());
            bytes[at] = rng.u8(..);
        }
        2 => bytes.truncate(rng.usize(..=bytes.len())),
        3 => replace(bytes, range(rng, bytes.len()), &[]),
        4 => {
            let part = bytes[range(rng, bytes.len())].to_vec();
            let at = rng.usize(..=bytes.len());
            replace(bytes, at..at, &part.repeat(1 << rng.u32(..12).saturating_sub(5)));
        }
        5 => {
            let part = other[range(rng, other.len())].to_vec();
            let at = range(rng, bytes.len());
            replace(bytes, at, &part);
        }
        6 => {
            let at = rng.usize(..=bytes.len());
            replace(bytes, at..at, PIECES[rng.usize(..PIECES.len())].as_bytes());
        }
        7..=9 => number(rng, bytes),
        10 | 11 => {
            // Replace a word by one of another input: most meaning is in words.
            if let (Some(at), Some(word)) = (word(rng, bytes), word(rng, other)) {
                replace(bytes, at, &other[word]);
            }
        }
        12 => {
            if let Some(at) = word(rng, bytes) {
                replace(bytes, at, &[]);
            }
        }
        // A bracketed part is removed, moved, or replaced by one of another input.
        16 => {
            if let Some(at) = bracketed(rng, bytes) {
                let comma = usize::from(bytes.get(at.end) == Some(&b','));
                replace(bytes, at.start..at.end + comma, &[]);
            }
        }
        17 | 18 => {
            let source = if rng.bool() { other.to_vec() } else { bytes.clone() };
            if let (Some(at), Some(part)) = (bracketed(rng, bytes), bracketed(rng, &source)) {
                replace(bytes, at, &source[part]);
            }
        }
        19 => {
            if let Some(at) = bracketed(rng, bytes) {
                let part = [b",", &bytes[at.clone()]].concat();
                replace(bytes, at.end..at.end, &part);
            }
        }
        13 => {
            if let Some(at) = word(rng, bytes) {
                let part = bytes[at.clone()].to_vec();
                replace(bytes, at.end..at.end, &part);
            }
        }
        _ => {
            if let (Some(one), Some(two)) = (word(rng, bytes), word(rng, bytes)) {
                let (first, second) = if one.start <= two.start { (one, two) } else { (two, one) };
                if first.end <= second.start {
                    let part = bytes[first.clone()].to_vec();
                    let moved = bytes[second.clone()].to_vec();
                    replace(bytes, second, &part);
                    replace(bytes, first, &moved);
                }
            }
        }
    }
}

/// The range of a pair of brackets and everything between them, if any.
fn bracketed(rng: &mut Rng, bytes: &[u8]) -> Option<Range<usize>> {
    let from = rng.usize(..bytes.len().max(1));
    let is_open = |byte: &u8| matches!(byte, b'{' | b'[' | b'(');
    let start = (from..bytes.len()).chain(0..from).find(|&at| is_open(&bytes[at]))?;
    let mut depth = 0i64;
    let end = bytes[start..].iter().position(|byte| {
        depth += i64::from(is_open(byte)) - i64::from(matches!(byte, b'}' | b']' | b')'));
        depth == 0
    })?;
    Some(start..start + end + 1)
}

/// Replaces a number by a notable one, or by one related to it.
fn number(rng: &mut Rng, bytes: &mut Vec<u8>) {
    let Some(at) = run(rng, bytes, u8::is_ascii_digit) else { return };
    let held = std::str::from_utf8(&bytes[at.clone()]).ok().and_then(|text| text.parse::<u64>().ok());
    let near = |held: u64, rng: &mut Rng| match rng.u8(..5) {
        0 => held.wrapping_add(1),
        1 => held.wrapping_sub(1),
        2 => held.wrapping_mul(2),
        3 => held.wrapping_mul(3),
        _ => held / 2,
    };
    let new = match held {
        Some(held) if rng.bool() => near(held, rng).to_string(),
        _ => {
            let numbers: Vec<_> = NUMBERS.split(' ').collect();
            numbers[rng.usize(..numbers.len())].to_owned()
        }
    };
    replace(bytes, at, new.as_bytes());
}

/// A word, or one character outside words.
fn word(rng: &mut Rng, bytes: &[u8]) -> Option<Range<usize>> {
    if bytes.is_empty() {
        return None;
    }
    let at = rng.usize(..bytes.len());
    let in_word = |byte: &u8| byte.is_ascii_alphanumeric() || !byte.is_ascii();
    if in_word(&bytes[at]) { Some(around(bytes, at, in_word)) } else { Some(at..at + 1) }
}

/// One of the maximal runs of bytes that `is` accepts.
fn run(rng: &mut Rng, bytes: &[u8], is: impl Fn(&u8) -> bool) -> Option<Range<usize>> {
    let starts: Vec<_> = (0..bytes.len()).filter(|&at| is(&bytes[at]) && (at == 0 || !is(&bytes[at - 1]))).collect();
    let start = rng.choice(starts)?;
    Some(around(bytes, start, is))
}

fn around(bytes: &[u8], at: usize, is: impl Fn(&u8) -> bool) -> Range<usize> {
    let before = bytes[..at].iter().rev().take_while(|byte| is(byte)).count();
    let after = bytes[at..].iter().take_while(|byte| is(byte)).count();
    at - before..at + after
}

fn range(rng: &mut Rng, len: usize) -> Range<usize> {
    let start = rng.usize(..=len);
    // Short ranges are more useful.
    let most = if rng.bool() { (len - start).min(8) } else { len - start };
    start..start + rng.usize(..=most)
}

fn replace(bytes: &mut Vec<u8>, at: Range<usize>, by: &[u8]) {
    bytes.splice(at, by.iter().copied());
}

/// Minimises a failing input: removes, part by part, everything that is not needed for `fails`.
pub(crate) fn minimised(input: &[u8], mut tries: usize, mut fails: impl FnMut(&[u8]) -> bool) -> Vec<u8> {
    let mut least = input.to_vec();
    let mut part = least.len().div_ceil(2);
    while part > 0 {
        let (mut at, mut shorter) = (0, false);
        while at < least.len() && tries > 0 {
            tries -= 1;
            let mut tried = least.clone();
            tried.drain(at..(at + part).min(least.len()));
            if fails(&tried) {
                least = tried;
                shorter = true;
            } else {
                at += part;
            }
        }
        if !shorter || part > 1 {
            part /= 2;
        }
        if tries == 0 {
            break;
        }
    }
    least
}
