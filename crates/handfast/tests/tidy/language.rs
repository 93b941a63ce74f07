//! Rules about language: hard words in messages, help, documentation, comments and the subjects of commits; doc comments that begin with a
//! question; names that mean nothing to a reader of the field.
//!
//! In: Markdown without code, and Rust. Out: complaints with the plain word.

use super::{Complaint, SourceFile, assert_none, check_files, run, sample};

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
/// First words of a doc comment, in the place of a verb or a noun.
const QUESTIONS: [&str; 7] = ["What", "Whether", "How", "Who", "Where", "When", "Why"];
/// Beginnings of functions' names, for programs that do not speak.
const VERBS: [&str; 8] = ["ask", "say", "tell", "hear", "look", "told", "said", "heard"];
/// Names of types and constants that hide their content.
const NAMES: [&str; 19] = [
    "Known", "Wanted", "Said", "Heard", "Nobody", "Somebody", "Told", "Asked", "Kept", "Wish", "MOST",
    "PATIENCE", "LONGEST", "SHORTEST", "ENOUGH", "FEW", "MANY", "AGAIN", "OFTEN",
];
/// The commit before the first one whose subject is checked. A copy without it, such as a shallow one, has nothing to check.
const FIRST: &str = "7e91e808622a5540c376a397047b16d2c322f0f2";
/// Most characters of a commit's subject.
const SUBJECT: usize = 72;
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

fn in_comments(file: &SourceFile) -> Vec<Complaint> {
    let mut complaints = Vec::new();
    let mut is_first = true;
    for (index, line) in file.text.lines().enumerate() {
        let line = line.trim_start();
        let doc = line.strip_prefix("///").or_else(|| line.strip_prefix("//!"));
        let comment = doc.or_else(|| line.strip_prefix("//"));
        let question = doc.filter(|_| is_first).and_then(|doc| {
            let first = doc.split_whitespace().next()?;
            QUESTIONS.contains(&first).then(|| {
                format!(
                    "a doc comment begins with `{first}`; hint: a verb or a noun: Returns …, Timeout for …"
                )
            })
        });
        let what = question.or_else(|| comment.and_then(|text| hard(&between(text, '`').0.join("x"))));
        complaints.extend(what.map(|what| Complaint::new(&file.path, index + 1, what)));
        is_first = doc.is_none();
    }
    complaints
}

/// Returns the name that a line of code defines, with the keyword in front of it.
fn definition(line: &str) -> Option<(&str, &str)> {
    let words =
        line.split(|sign: char| !sign.is_alphanumeric() && sign != '_').filter(|word| !word.is_empty());
    let words: Vec<&str> = words.collect();
    let keyword = words
        .iter()
        .position(|word| ["fn", "struct", "enum", "trait", "type", "const", "static"].contains(word))?;
    let is_start = words[..keyword]
        .iter()
        .all(|word| ["pub", "crate", "super", "in", "async", "const", "unsafe"].contains(word));
    let keyword = if words.get(keyword + 1) == Some(&"fn") { keyword + 1 } else { keyword };
    is_start.then_some((*words.get(keyword)?, *words.get(keyword + 1)?))
}

fn in_names(file: &SourceFile) -> Vec<Complaint> {
    let mut complaints = Vec::new();
    for (index, line) in file.text.lines().enumerate() {
        let code = line.trim_start();
        let Some((keyword, name)) = definition(code).filter(|_| !code.starts_with("//")) else { continue };
        let is_hard = match keyword {
            "fn" => VERBS.contains(&name.split('_').next().unwrap_or_default()),
            _ => NAMES.contains(&name),
        };
        if is_hard {
            let what = format!(
                "`{name}` is no term of the field; hint: its use and object: query_status, MAX_HEADERS"
            );
            complaints.push(Complaint::new(&file.path, index + 1, what));
        }
    }
    complaints
}

#[test]
fn comments_are_in_plain_words() {
    check_files(|file| file.is_rust() && !file.path.ends_with("tidy/language.rs"), in_comments);
}

#[test]
fn names_are_terms_of_the_field() {
    check_files(SourceFile::is_rust, in_names);
}

#[test]
fn a_hard_comment_or_name_is_seen() {
    let code = "/// Whether it is.\n/// Second line.\n//! How it is.\n// to whom\n/// Where `whom` is.\n/// Returns it.\n";
    assert_eq!(in_comments(&sample("a.rs", code)).len(), 3);
    let code = "pub(crate) async fn ask(a: u8) {}\nfn told_it() {}\nconst MOST: u8 = 1;\nstruct Known;\n// fn ask()\nconst fn asks() {}\nfn task() {}\nlet fn_ask = ask();\n";
    assert_eq!(in_names(&sample("a.rs", code)).len(), 4);
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

/// Complaints about the subjects of commits, each behind its number.
fn in_subjects(log: &str) -> Vec<Complaint> {
    let complaint = |line: &str| {
        let (commit, subject) = line.split_once(' ')?;
        let length = subject.chars().count();
        let what = if length > SUBJECT {
            Some(format!("its subject has {length} characters; hint: at most {SUBJECT}"))
        } else if !subject.contains(": ") {
            Some("its subject names no area; hint: `area: change`".to_owned())
        } else {
            hard(subject)
        };
        what.map(|what| Complaint::new(&format!("commit {commit}"), 1, what))
    };
    log.lines().filter_map(complaint).collect()
}

#[test]
fn subjects_of_commits_are_short_and_in_plain_words() {
    let has_first = run("git", &["rev-list", "--ignore-missing", "--max-count=1", FIRST]);
    let log = if has_first.is_empty() {
        String::new()
    } else {
        run("git", &["log", "--no-merges", "--format=%h %s", &format!("{FIRST}..HEAD")])
    };
    assert_none(&in_subjects(&log));
}

#[test]
fn a_long_subject_is_seen() {
    let long = format!("a1 proxy: {}", "x".repeat(70));
    for bad in [long.as_str(), "a1 no area", "a1 proxy: written anew"] {
        assert_eq!(in_subjects(bad).len(), 1, "{bad}");
    }
    assert_eq!(in_subjects("a1 proxy: write it again").len(), 0);
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
