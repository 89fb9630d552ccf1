//! README and the pages of the guide: commands print what the pages show, files of kernels lower, link targets exist,
//! pages are short, and the picture is the drawing of the file next to it. Blocks of Rust are tests of the
//! documentation.

use polyshard_testing::test_folder;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// A fenced block: the words after the fence, and its lines.
struct Block<'t> {
    words: Vec<&'t str>,
    lines: Vec<&'t str>,
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

/// README and the pages, each with its path and text.
fn pages() -> Vec<(PathBuf, String)> {
    let entries = fs::read_dir(root().join("docs")).expect("the guide").map(|entry| entry.expect("an entry").path());
    let paths =
        entries.filter(|path| path.extension().is_some_and(|end| end == "md")).chain([root().join("README.md")]);
    let mut pages: Vec<_> =
        paths.map(|path| (path.clone(), fs::read_to_string(path).expect("a page is text"))).collect();
    pages.sort();
    assert!(pages.len() > 10, "hardly a page");
    pages
}

fn blocks(text: &str) -> Vec<Block<'_>> {
    let mut blocks = Vec::new();
    let mut lines = text.lines();
    while let Some(line) = lines.next() {
        if let Some(words) = line.strip_prefix("```") {
            let lines = lines.by_ref().take_while(|line| *line != "```").collect();
            blocks.push(Block { words: words.split(' ').collect(), lines });
        }
    }
    blocks
}

/// Whether a line matches the page, where `..` stands for any text.
fn fits_line(page: &str, line: &str) -> bool {
    let pieces: Vec<_> = page.trim_end().split("..").collect();
    let [first, middle @ .., last] = &pieces[..] else { return page.trim_end() == line.trim_end() };
    let Some(mut rest) = line.trim_end().strip_prefix(first) else { return false };
    for piece in middle {
        let Some((_, behind)) = rest.split_once(piece) else { return false };
        rest = behind;
    }
    rest.ends_with(last)
}

/// Whether lines match the page, where a line of `..` stands for any number of lines.
fn fits(page: &[&str], lines: &[&str]) -> bool {
    match (page, lines) {
        ([], []) => true,
        ([first, rest @ ..], _) if first.trim() == ".." => {
            (0..=lines.len()).any(|skipped| fits(rest, &lines[skipped..]))
        }
        ([first, rest @ ..], [line, others @ ..]) => fits_line(first, line) && fits(rest, others),
        _ => false,
    }
}

/// Runs a command line in a folder and returns all that it printed.
fn shell(command: &str, folder: &Path) -> String {
    let program = Path::new(env!("CARGO_BIN_EXE_polyshard")).parent().expect("a folder").display().to_string();
    let path = format!("{program}:{}", std::env::var("PATH").expect("a path"));
    let mut shell = Command::new("sh");
    shell.args(["-c", &format!("{{ {command}; }} 2>&1")]).current_dir(folder).env("PATH", path);
    let ended = shell.env_remove("POLYSHARD_MACHINE").env("XDG_CACHE_HOME", folder).output().expect("a shell starts");
    String::from_utf8(ended.stdout).expect("text")
}

#[test]
fn commands_print_what_the_pages_say() {
    let mut count = 0;
    for (page, text) in pages() {
        if page.ends_with("README.md") {
            continue;
        }
        let folder = test_folder!(page.file_stem().expect("a name").to_str().expect("text"));
        fs::create_dir_all(folder.join("examples/poly")).expect("a folder");
        for file in fs::read_dir(root().join("examples/poly")).expect("the examples") {
            let path = file.expect("a file").path();
            fs::copy(&path, folder.join("examples/poly").join(path.file_name().expect("a name"))).expect("a copy");
        }
        for Block { words, lines } in blocks(&text) {
            match words[..] {
                ["poly", name] => fs::write(folder.join(name), lines.join("\n")).expect("a file"),
                ["console"] => {
                    for said in lines.chunk_by(|_, next| !next.starts_with("$ ")) {
                        let long = said.iter().take_while(|line| line.ends_with('\\')).count();
                        let command: Vec<_> = said[..=long].iter().map(|line| line.trim_end_matches('\\')).collect();
                        let command = command.join("");
                        let command = command.strip_prefix("$ ").expect("a block begins with a command");
                        let printed = shell(command, &folder);
                        let printed: Vec<_> = printed.trim_end().lines().collect();
                        let page_says = &said[long + 1..];
                        let end = page_says.iter().rposition(|line| !line.is_empty()).map_or(0, |last| last + 1);
                        assert!(
                            fits(&page_says[..end], &printed),
                            "{}: `{command}` prints\n{}\nwhere the page says\n{}",
                            page.display(),
                            printed.join("\n"),
                            page_says.join("\n")
                        );
                        count += 1;
                    }
                }
                _ => {}
            }
        }
    }
    assert!(count > 20, "hardly a command: {count}");
}

/// The test supplies the values that files leave open: 16 ranks, a machine, an element type, and 12 for each name.
#[test]
fn files_of_kernels_lower() {
    let folder = test_folder!("files_of_kernels");
    let mut count = 0;
    for (page, text) in pages() {
        let files = blocks(&text).into_iter().filter(|block| block.words[0] == "poly");
        for Block { lines, .. } in files.filter(|block| block.lines.iter().any(|line| line.starts_with("fn "))) {
            fs::write(folder.join("file.poly"), lines.join("\n")).expect("a file");
            if lines[0].starts_with("//") {
                continue; // A transcript covers it.
            }
            let mut command = "polyshard lower file.poly --type f64 --ranks 16 --machine a100".to_owned();
            let mut printed = shell(&command, &folder);
            for _ in 0..9 {
                let open: Vec<_> = printed.split("--let ").skip(1).filter_map(|rest| rest.split_once('=')).collect();
                let Some((name, _)) = open.first() else { break };
                command += &format!(" --let {name}=12");
                printed = shell(&command, &folder);
            }
            assert!(
                printed.contains("on each rank") || printed.contains("program over"),
                "{}: {printed}",
                page.display()
            );
            count += 1;
        }
    }
    assert!(count > 10, "hardly a file: {count}");
}

#[test]
fn links_lead_to_files_and_pages_are_short() {
    for (page, text) in pages() {
        let most = if page.ends_with("docs/README.md") || !page.ends_with("README.md") { 200 } else { 150 };
        let lines = text.lines().count();
        assert!(lines <= most, "{} has {lines} lines", page.display());
        let mut is_code = false;
        for (number, line) in (1..).zip(text.lines()) {
            is_code ^= line.starts_with("```");
            assert!(is_code || line.chars().count() <= 120, "{}:{number} is long", page.display());
        }
        for target in text.split("](").skip(1).filter_map(|rest| rest.split([')', '#']).next()) {
            let is_elsewhere = target.contains("://") || target.is_empty();
            let path = page.parent().expect("a folder").join(target);
            assert!(is_elsewhere || path.exists(), "{} links to {target}, which is gone", page.display());
        }
    }
}

#[test]
fn the_picture_is_what_the_file_beside_it_draws() {
    let folder = test_folder!("picture");
    let readme = fs::read_to_string(root().join("README.md")).expect("the README");
    let file = blocks(&readme).into_iter().find(|block| block.words == ["poly"]).expect("a file of kernels");
    fs::write(folder.join("summa.poly"), file.lines.join("\n")).expect("a file");
    let command = "polyshard lower summa.poly --let m=6 --let k=12 --let n=9 --type f64 --draw summa.svg";
    let printed = shell(command, &folder);
    let drawn = fs::read_to_string(folder.join("summa.svg")).unwrap_or_else(|why| panic!("{why}: {printed}"));
    let kept = fs::read_to_string(root().join("docs/summa.svg")).expect("the picture");
    assert!(drawn == kept, "docs/summa.svg is out of date: {command}");
}
