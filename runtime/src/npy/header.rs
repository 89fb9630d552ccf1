//! The header of a `.npy` file: a Python dictionary of three entries.
//!
//! The text may be anything. It is read once, from left to right, without recursion.

use super::shortened;

/// The contents of a header.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Header {
    pub(super) descr: Descr,
    pub(super) fortran: bool,
    pub(super) shape: Vec<usize>,
}

/// The type of the elements.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Descr {
    /// In NumPy's code, as `<f4`.
    Plain(String),
    /// A list of fields.
    Record,
}

impl Header {
    /// Parses `{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }`, with the entries in any order; the error
    /// says what is wrong.
    pub(super) fn parse(text: &str) -> Result<Self, String> {
        let (mut descr, mut fortran, mut shape) = (None, None, None);
        let mut rest = Rest(text);
        rest.expect('{')?;
        while !rest.take('}') {
            let key = rest.string()?;
            rest.expect(':')?;
            match key {
                "descr" => descr = Some(rest.descr()?),
                "fortran_order" => fortran = Some(rest.truth()?),
                "shape" => shape = Some(rest.shape()?),
                other => return Err(format!("`{}` is not an entry of it", shortened(other))),
            }
            if !rest.take(',') {
                rest.expect('}')?;
                break;
            }
        }
        let missing = |name: &str| format!("`{name}` is missing");
        Ok(Self {
            descr: descr.ok_or_else(|| missing("descr"))?,
            fortran: fortran.ok_or_else(|| missing("fortran_order"))?,
            shape: shape.ok_or_else(|| missing("shape"))?,
        })
    }
}

/// The text that has not been read.
struct Rest<'a>(&'a str);

impl<'a> Rest<'a> {
    fn skip_space(&mut self) {
        self.0 = self.0.trim_start();
    }

    /// Skips a character if it is the next one.
    fn take(&mut self, wanted: char) -> bool {
        self.skip_space();
        let rest = self.0.strip_prefix(wanted);
        self.0 = rest.unwrap_or(self.0);
        rest.is_some()
    }

    fn expect(&mut self, wanted: char) -> Result<(), String> {
        if self.take(wanted) { Ok(()) } else { Err(self.instead_of(&format!("`{wanted}`"))) }
    }

    fn instead_of(&self, wanted: &str) -> String {
        match self.0.trim() {
            "" => format!("it ends where {wanted} should be"),
            rest => format!("`{}` is where {wanted} should be", shortened(rest)),
        }
    }

    /// A string in quotes; names and types have no escapes.
    fn string(&mut self) -> Result<&'a str, String> {
        self.skip_space();
        let quote = self.0.chars().next().filter(|quote| ['\'', '"'].contains(quote));
        let quote = quote.ok_or_else(|| self.instead_of("a string"))?;
        let (string, rest) = self.0[1..].split_once(quote).ok_or_else(|| self.instead_of("a string"))?;
        self.0 = rest;
        Ok(string)
    }

    fn truth(&mut self) -> Result<bool, String> {
        self.skip_space();
        for (word, value) in [("False", false), ("True", true)] {
            if let Some(rest) = self.0.strip_prefix(word) {
                self.0 = rest;
                return Ok(value);
            }
        }
        Err(self.instead_of("`True` or `False`"))
    }

    /// `()`, `(2,)` or `(2, 3)`; Python 2 wrote `2L` for long numbers.
    fn shape(&mut self) -> Result<Vec<usize>, String> {
        let mut shape = Vec::new();
        self.expect('(')?;
        while !self.take(')') {
            self.skip_space();
            let digits = self.0.find(|c: char| !c.is_ascii_digit()).unwrap_or(self.0.len());
            let extent = self.0[..digits].parse().map_err(|_| self.instead_of("an extent"))?;
            self.0 = &self.0[digits..];
            self.0 = self.0.strip_prefix('L').unwrap_or(self.0);
            shape.push(extent);
            if !self.take(',') {
                self.expect(')')?;
                break;
            }
        }
        Ok(shape)
    }

    fn descr(&mut self) -> Result<Descr, String> {
        self.skip_space();
        if !self.0.starts_with('[') {
            return Ok(Descr::Plain(self.string()?.into()));
        }
        // Fields are skipped, up to the bracket that closes the list.
        let (mut depth, mut quote) = (0, None);
        for (at, c) in self.0.char_indices() {
            match (quote, c) {
                (Some(open), c) if c == open => quote = None,
                (Some(_), _) => {}
                (None, '\'' | '"') => quote = Some(c),
                (None, '[') => depth += 1,
                (None, ']') => depth -= 1,
                (None, _) => {}
            }
            if depth == 0 {
                self.0 = &self.0[at + 1..];
                return Ok(Descr::Record);
            }
        }
        Err("its list of fields does not end".into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, shape: &[usize]) {
        let header = Header { descr: Descr::Plain("<f4".into()), fortran: false, shape: shape.to_vec() };
        assert_eq!(Header::parse(text), Ok(header), "{text}");
    }

    #[test]
    fn headers_are_read_as_any_numpy_wrote_them() {
        check("{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }   \n", &[2, 3]);
        check("{'shape': (2L, 3L), 'descr': '<f4', 'fortran_order': False}", &[2, 3]);
        check("{\"descr\":\"<f4\",\"fortran_order\":False,\"shape\":()}", &[]);
        check("  { 'descr' : '<f4' , 'fortran_order' : False , 'shape' : ( 7 , ) , }", &[7]);
        let record = "{'descr': [('a]', '<f4', (2,)), ('b', [('c', '<i4')])], 'fortran_order': True, 'shape': (1,)}";
        let header = Header { descr: Descr::Record, fortran: true, shape: vec![1] };
        assert_eq!(Header::parse(record), Ok(header));
    }

    #[test]
    fn what_is_wrong_is_said_in_a_few_characters() {
        let said = |text: &str| Header::parse(text).expect_err("it is damaged");
        assert_eq!(said(""), "it ends where `{` should be");
        assert_eq!(said("{'descr': '<f4', 'shape': (1,)}"), "`fortran_order` is missing");
        assert_eq!(said("{'descr': '<f4', 'shape': (-1,)}"), "`-1,)}` is where an extent should be");
        let long = said(&format!("{{'shape': ({},)}}", "9".repeat(5000)));
        assert_eq!(long, format!("`{}..` is where an extent should be", "9".repeat(40)));
        assert_eq!(said("{'descr': [(([[['"), "its list of fields does not end");
        assert_eq!(said("{'fortran_order': 0"), "`0` is where `True` or `False` should be");
        assert_eq!(said("{'\x1b[31m': 1"), "`\\u{1b}[31m` is not an entry of it");
        assert_eq!(said("{'descr': '<f4"), "`'<f4` is where a string should be");
    }
}
