//! Writes the pages of the guide for rustdoc: links between them, which are links to files in the repository, become links to modules.

use std::path::Path;
use std::{env, fs};

fn main() {
    println!("cargo::rerun-if-changed=docs");
    let out = env::var("OUT_DIR").expect("cargo names a folder");
    for file in fs::read_dir("docs").expect("the pages of the guide") {
        let path = file.expect("a file").path();
        if path.extension().is_some_and(|end| end == "md") {
            let page = fs::read_to_string(&path).expect("a page");
            fs::write(Path::new(&out).join(path.file_name().expect("a name")), linked(&page)).expect("a page");
        }
    }
}

/// `](coming-from.md)` becomes `](crate::guide::coming_from)`, and `](../README.md)` a link to the repository.
fn linked(page: &str) -> String {
    let mut parts = page.split("](");
    let mut text = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let Some((target, rest)) = part.split_once(')') else {
            text += &format!("]({part}");
            continue;
        };
        let target = match (target.strip_prefix("../"), target.strip_suffix(".md")) {
            (Some(file), _) => format!("{}/blob/main/{file}", env!("CARGO_PKG_REPOSITORY")),
            (None, Some(page)) => format!("crate::guide::{}", page.replace('-', "_")),
            (None, None) => target.to_owned(),
        };
        text += &format!("]({target}){rest}");
    }
    text
}
