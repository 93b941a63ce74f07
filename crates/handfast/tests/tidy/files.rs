//! Rules about a file as a whole: its head, its size, unsafe code, and that it is reached at all.

use super::{Complaint, SourceFile, assert_none, check_files, sample, tracked_files};

/// Lines of code after which a file must say why it is long.
const LONG_FILE_LINES: usize = 600;
/// Lines of code that one connection's whole path may take.
const PATH: usize = 120;
/// Number of lines above an unsafe block within which its reason may begin.
const REASON_WITHIN: usize = 12;

/// Non-blank lines that are not comments, up to the tests at the bottom.
fn code_lines(text: &str) -> usize {
    let lines: Vec<&str> = text.lines().map(str::trim).collect();
    let tests = lines.windows(2).position(|two| two[0] == "#[cfg(test)]" && two[1].starts_with("mod "));
    let code = |line: &&&str| !line.is_empty() && !line.starts_with("//");
    lines[..tests.unwrap_or(lines.len())].iter().filter(code).count()
}

fn head(file: &SourceFile) -> Vec<Complaint> {
    let first = file.text.lines().next().unwrap_or("");
    if first.starts_with("//! ") {
        return Vec::new();
    }
    vec![Complaint::new(
        &file.path,
        1,
        "does not start with `//! `; hint: say what the file is for, what comes in, what goes out",
    )]
}

fn size(file: &SourceFile) -> Vec<Complaint> {
    let lines = code_lines(&file.text);
    if file.path.ends_with("handfast-proxy/src/path.rs") && lines > PATH {
        let what =
            format!("{lines} lines of code, limit {PATH}; hint: details live behind the names of the steps");
        return vec![Complaint::new(&file.path, 0, what)];
    }
    let excused =
        file.text.lines().take_while(|line| line.starts_with("//!")).any(|line| line.contains("Long: "));
    if lines <= LONG_FILE_LINES || excused {
        return Vec::new();
    }
    let what = format!(
        "{lines} lines of code, limit {LONG_FILE_LINES}; hint: split it, or say why in the head after the word `Long: `"
    );
    vec![Complaint::new(&file.path, 0, what)]
}

/// The root file of a library, a program or a test target.
fn is_crate_root(path: &str) -> bool {
    let Some(inside) =
        path.strip_prefix("crates/").and_then(|path| path.split_once('/')).map(|(_, rest)| rest)
    else {
        return false;
    };
    let target = |folder: &str| {
        inside.strip_prefix(folder).is_some_and(|rest| !rest.contains('/') || rest.ends_with("/main.rs"))
    };
    inside == "src/lib.rs" || inside == "src/main.rs" || target("tests/") || target("examples/")
}

fn unsafe_code(file: &SourceFile) -> Vec<Complaint> {
    if file.crate_name() != Some("handfast-net") {
        if is_crate_root(&file.path)
            && !file.text.lines().any(|line| line.trim() == "#![forbid(unsafe_code)]")
        {
            let what =
                "does not say `#![forbid(unsafe_code)]`; hint: unsafe code lives in handfast-net alone";
            return vec![Complaint::new(&file.path, 0, what)];
        }
        return Vec::new();
    }
    let lines: Vec<&str> = file.text.lines().collect();
    let without_reason = |(index, line): (usize, &&str)| {
        let code = line.split("//").next().unwrap_or("");
        let opens = ["unsafe {", "unsafe impl"].iter().any(|word| code.contains(word));
        let above = &lines[index.saturating_sub(REASON_WITHIN)..index];
        let explained = above.iter().any(|line| line.trim_start().starts_with("// SAFETY:"));
        (opens && !explained).then(|| {
            let what = "unsafe without `// SAFETY:` above it; hint: name the invariant and who keeps it";
            Complaint::new(&file.path, index + 1, what)
        })
    };
    lines.iter().enumerate().filter_map(without_reason).collect()
}

/// Promise files that `main.rs` does not name would not compile anywhere, and so never fail.
fn unreached(main: &str, promises: &[&str]) -> Vec<Complaint> {
    let named = |promise: &&&str| !main.lines().any(|line| line.trim() == format!("mod {promise};"));
    let complain = |promise: &&str| {
        let what = format!("is never run; hint: `mod {promise};` in main.rs");
        Complaint::new(&format!("crates/handfast/tests/promises/{promise}.rs"), 0, what)
    };
    promises.iter().filter(named).map(complain).collect()
}

/// A crate's own clippy.toml may leave lines of the root's away, and change none.
fn clippy_lines(root: &str, own: &SourceFile) -> Vec<Complaint> {
    let rules = |line: &str| !line.trim().is_empty() && !line.starts_with('#');
    let unknown = |(index, line): (usize, &str)| {
        (rules(line) && !root.lines().any(|known| known == line)).then(|| {
            let what =
                "a line that the root's clippy.toml does not have; hint: copy it from there, or add it there";
            Complaint::new(&own.path, index + 1, what)
        })
    };
    own.text.lines().enumerate().filter_map(unknown).collect()
}

#[test]
fn every_file_says_what_it_is_for() {
    check_files(SourceFile::is_rust, head);
}

#[test]
fn files_keep_their_budgets() {
    check_files(SourceFile::is_rust, size);
}

#[test]
fn unsafe_code_is_in_net_alone_and_explained() {
    check_files(SourceFile::is_rust, unsafe_code);
}

#[test]
fn every_promise_is_run() {
    let files = tracked_files();
    let folder = "crates/handfast/tests/promises/";
    let inside = |file: &SourceFile| file.path.strip_prefix(folder).map(str::to_owned);
    let names: Vec<String> = files.iter().filter_map(inside).filter(|name| !name.contains('/')).collect();
    let names: Vec<&str> =
        names.iter().filter_map(|name| name.strip_suffix(".rs")).filter(|name| *name != "main").collect();
    let main =
        files.iter().find(|file| file.path == format!("{folder}main.rs")).expect("promises/main.rs exists");
    assert_none(&unreached(&main.text, &names));
}

#[test]
fn bans_of_one_crate_differ_by_omission_only() {
    let files = tracked_files();
    let root = files.iter().find(|file| file.path == "clippy.toml").expect("clippy.toml exists");
    let own =
        files.iter().filter(|file| file.path.starts_with("crates/") && file.path.ends_with("/clippy.toml"));
    assert_none(&own.flat_map(|file| clippy_lines(&root.text, file)).collect::<Vec<_>>());
}

#[test]
fn a_missing_head_is_seen() {
    assert_eq!(head(&sample("a.rs", "use std::io;\n")).len(), 1);
    assert_eq!(head(&sample("a.rs", "")).len(), 1);
    assert_eq!(head(&sample("a.rs", "//! What for.\n")), []);
}

#[test]
fn a_long_file_is_seen() {
    let long = "let a = 1;\n".repeat(LONG_FILE_LINES + 1);
    assert_eq!(size(&sample("a.rs", &long)).len(), 1);
    assert_eq!(size(&sample("a.rs", &format!("//! X. Long: a table.\n{long}"))), []);
    assert_eq!(size(&sample("a.rs", &"// why\n\n".repeat(LONG_FILE_LINES))), [], "comments are free");
    assert_eq!(size(&sample("a.rs", &format!("#[cfg(test)]\nmod tests {{\n{long}}}\n"))), [], "so are tests");
    let path = "crates/handfast-proxy/src/path.rs";
    assert_eq!(size(&sample(path, &"let a = 1;\n".repeat(PATH + 1))).len(), 1);
}

#[test]
fn unsafe_code_in_the_wrong_place_is_seen() {
    assert_eq!(unsafe_code(&sample("crates/handfast-wire/src/lib.rs", "//! X.\n")).len(), 1);
    assert_eq!(unsafe_code(&sample("crates/handfast/tests/promises/main.rs", "//! X.\n")).len(), 1);
    assert_eq!(unsafe_code(&sample("crates/handfast-wire/src/a.rs", "//! X.\n")), []);
    let bare = sample("crates/handfast-net/src/a.rs", "//! X.\nlet a = unsafe { b() };\n");
    assert_eq!(unsafe_code(&bare), [Complaint::new(&bare.path, 2, unsafe_code(&bare)[0].what.clone())]);
    let explained = "//! X.\n// SAFETY: b has no demands.\nlet a = unsafe { b() };\n";
    assert_eq!(unsafe_code(&sample("crates/handfast-net/src/a.rs", explained)), []);
}

#[test]
fn a_promise_that_is_never_run_is_seen() {
    assert_eq!(unreached("mod a;\n// mod b;\n", &["a", "b"]).len(), 1);
}

#[test]
fn a_changed_ban_is_seen() {
    let own = sample("crates/x/clippy.toml", "# why\nallow-a = true\nallow-b = false\n");
    assert_eq!(clippy_lines("allow-a = true\nallow-b = true\n", &own)[0].line, 3);
}
