//! The modules in the tables in heads of files, compared with the declared ones.

use std::collections::BTreeSet;

/// Returns the modules that a table in the head of a file names, if its first column is headed `file` or `module`.
pub(crate) fn tabled(file: &str) -> Option<BTreeSet<String>> {
    let mut rows = file.lines().map_while(|line| line.strip_prefix("//!")).map(str::trim);
    rows.find(|row| ["| file |", "| module |"].iter().any(|head| row.starts_with(head)))?;
    let rows = rows.skip(1).map_while(|row| row.strip_prefix('|')).filter_map(|row| row.split('|').next());
    Some(rows.flat_map(|first| first.split('`').skip(1).step_by(2)).map(str::to_owned).collect())
}

/// Returns the modules that a file declares and that are not for tests.
pub(crate) fn declared(file: &str) -> BTreeSet<String> {
    let words = ["mod ", "pub mod ", "pub(crate) mod ", "pub(super) mod "];
    let name =
        |line: &str| words.iter().find_map(|start| line.strip_prefix(start)?.strip_suffix(';').map(str::to_owned));
    file.lines().filter_map(name).filter(|name| name != "tests").collect()
}

#[cfg(test)]
mod tests {
    use super::{declared, tabled};

    fn names(text: &str) -> Vec<String> {
        text.split_whitespace().map(str::to_owned).collect()
    }

    #[test]
    fn tables_are_read_to_their_end() {
        let file = "//! Head, of `x`.\n//!\n//! | file | holds |\n//! | --- | --- |\n//! | `b`, [`a`] | `c` |\n//!\n//! `d`\n\
                    mod a;\npub(crate) mod b;\n#[cfg(test)]\nmod tests;\n";
        assert_eq!(Vec::from_iter(tabled(file).expect("a table")), names("a b"));
        assert_eq!(Vec::from_iter(declared(file)), names("a b"));
        assert_eq!(tabled("//! | word | meaning |\n"), None);
    }
}
