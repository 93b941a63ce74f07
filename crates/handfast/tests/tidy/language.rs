//! Rules about language: words of an old novel, in messages, help and documentation.
//!
//! In: Markdown without code, and texts in the code of products. Out: complaints with the plain word.

use super::{Complaint, SourceFile, check_files, sample};

/// Words that are hard to read with English as a second language, and what to write instead.
const PLAIN: [(&str, &str); 16] = [
    ("anew", "again, repeatedly"),
    ("are told", "receive, are notified"),
    ("bears", "tolerates, handles"),
    ("borne", "tolerated"),
    ("by lot", "at random"),
    ("hears", "receives, reads"),
    ("hesitates", "is unresponsive"),
    ("is told", "receives, is notified"),
    ("lies in", "is stored in"),
    ("may not", "must not, or might not"),
    ("of its own", "separate"),
    ("patience", "timeout"),
    ("says so", "reports it, logs it"),
    ("was told", "received, was notified"),
    ("whoever", "the client that, the process that"),
    ("whom", "the client that, the process that"),
];
/// Texts with fewer words are names and formats.
const WORDS: usize = 4;

/// The first hard word of a text, with what to write instead.
fn hard(text: &str) -> Option<String> {
    let text = text.to_ascii_lowercase();
    let is_whole = |at: usize, word: &str| {
        !text[..at].ends_with(|sign: char| sign.is_alphanumeric() || sign == '-')
            && !text[at + word.len()..].starts_with(|sign: char| sign.is_alphanumeric() || sign == '-')
    };
    let found = PLAIN.iter().find(|(word, _)| text.match_indices(word).any(|(at, _)| is_whole(at, word)));
    found.map(|(word, plain)| format!("`{word}` is hard to read; hint: {plain}"))
}

/// The parts of a line between marks: texts in quotes, or code in backquotes.
fn between(line: &str, mark: char) -> (Vec<&str>, Vec<&str>) {
    let (mut outside, mut inside) = (Vec::new(), Vec::new());
    for (index, part) in line.split(mark).enumerate() {
        if index % 2 == 0 { outside.push(part) } else { inside.push(part) }
    }
    (outside, inside)
}

fn in_markdown(file: &SourceFile) -> Vec<Complaint> {
    let mut fenced = false;
    let mut complaints = Vec::new();
    for (index, line) in file.text.lines().enumerate() {
        if line.trim_start().starts_with("```") {
            fenced = !fenced;
        } else if !fenced && let Some(what) = hard(&between(line, '`').0.join("x")) {
            complaints.push(Complaint::new(&file.path, index + 1, what));
        }
    }
    complaints
}

fn in_messages(file: &SourceFile) -> Vec<Complaint> {
    let product = file.text.split("#[cfg(test)]\nmod tests {").next().unwrap_or_default();
    let mut complaints = Vec::new();
    for (index, line) in product.lines().enumerate() {
        // Documentation of keys and options is what users read as help.
        let is_help = file.path.contains("/keys/") || file.path.contains("/words/");
        let help = line.trim_start().strip_prefix("///").filter(|_| is_help);
        let escaped = line.replace("\\\"", "'");
        let texts = if line.trim_start().starts_with("//") { Vec::new() } else { between(&escaped, '"').1 };
        let texts = texts.into_iter().filter(|text| text.split_whitespace().count() >= WORDS);
        if let Some(what) = help.into_iter().chain(texts).find_map(hard) {
            complaints.push(Complaint::new(&file.path, index + 1, what));
        }
    }
    complaints
}

#[test]
fn documentation_is_in_plain_words() {
    check_files(|file| file.path.ends_with(".md") && !file.path.starts_with("bench/runs/"), in_markdown);
}

#[test]
fn messages_and_help_are_in_plain_words() {
    let of_a_product = |file: &SourceFile| {
        file.is_rust()
            && file.path.contains("/src/")
            && !file.path.contains("test")
            && !file.path.contains("trials")
    };
    check_files(of_a_product, in_messages);
}

#[test]
fn a_hard_word_is_seen() {
    for bad in ["the client is told why", "to whom it may go", "Written anew.", "it has a line of its own"] {
        assert!(hard(bad).is_some(), "{bad}");
    }
    for good in ["renewed", "the bearings", "it receives the reason", "whom-it-may"] {
        assert_eq!(hard(good), None, "{good}");
    }
    let page = sample("a.md", "`whom`\n```\nwhom\n```\nto whom\n");
    assert_eq!(in_markdown(&page).len(), 1);
    let code = "// whom\nlet a = \"whom\";\nlet b = \"the one to whom it goes\";\n#[cfg(test)]\nmod tests {\n\"the one to whom it goes\"";
    assert_eq!(in_messages(&sample("crates/a/src/a.rs", code)).len(), 1);
    assert_eq!(in_messages(&sample("crates/a/src/keys/a.rs", "/// Those whom it serves.\n")).len(), 1);
}
