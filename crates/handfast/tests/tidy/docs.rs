//! Rules about what the documents say of the program: metrics that exist, defaults and figures that are the code's.

use super::{Complaint, SourceFile, assert_none, check_files, sample, tracked_files};

/// A figure that the code has and the documents repeat. A developer who changes the first finds the second here.
struct Figure {
    /// The file with the constant.
    source: &'static str,
    /// The constant, as it is written.
    constant: &'static str,
    /// Documents, and what each of them says.
    mentions: &'static [(&'static str, &'static str)],
}

/// The page with the table of limits.
const LIMITS_PAGE: &str = "docs/proxy/limits.md";

const FIGURES: [Figure; 5] = [
    Figure {
        source: "crates/handfast-process/src/limits.rs",
        constant: "const RESERVED_FILES: RangeInclusive<u64> = 40..=128;",
        mentions: &[
            (LIMITS_PAGE, "an eighth of the limit, at least 40 and at most 128, is kept for everything else"),
            ("crates/handfast-doctor/src/exam/files.rs", "const RESERVED: (u64, u64) = (40, 128);"),
        ],
    },
    Figure {
        source: "crates/handfast-proxy/src/control/start.rs",
        constant: "const FIRST_NAMES: Duration = Duration::from_secs(2);",
        mentions: &[("docs/proxy/backends.md", "At start Handfast waits up to two seconds for names")],
    },
    Figure {
        source: "crates/handfast-proxy/src/backends/names.rs",
        constant: "const LOOKUP_TIMEOUT: Duration = Duration::from_secs(15);",
        mentions: &[(
            "docs/proxy/monitoring.md",
            "while a name has had no outcome at all (fifteen seconds at most)",
        )],
    },
    Figure {
        source: "crates/handfast-proxy/src/backends/names.rs",
        constant: "const TRIAL_TIMEOUT: Duration = Duration::from_secs(8);",
        mentions: &[("docs/start/first-proxy.md", "all at the same time and for at most eight seconds")],
    },
    Figure {
        source: "crates/handfast-load/src/distributed.rs",
        constant: "pub const LEASE: Duration = Duration::from_secs(5);",
        mentions: &[("ARCHITECTURE.md", "an order holds for five seconds")],
    },
];

fn figure(figure: &Figure, text_of: impl Fn(&str) -> String) -> Vec<Complaint> {
    if !text_of(figure.source).contains(figure.constant) {
        let mentions: Vec<&str> = figure.mentions.iter().map(|(document, _)| *document).collect();
        let what = format!(
            "`{}` is no longer here; hint: correct {} and FIGURES in tests/tidy/docs.rs",
            figure.constant,
            mentions.join(", ")
        );
        return vec![Complaint::new(figure.source, 0, what)];
    }
    // A sentence may go on in the next line.
    let joined = |document: &str| text_of(document).split_whitespace().collect::<Vec<_>>().join(" ");
    let untold = figure.mentions.iter().filter(|(document, words)| !joined(document).contains(words));
    let complain = |(document, words): &(&str, &str)| {
        let what =
            format!("does not say \"{words}\", which `{}` in {} makes true", figure.constant, figure.source);
        Complaint::new(document, 0, what)
    };
    untold.map(complain).collect()
}

/// Suffixes that an exposition adds to a metric's name, outermost first.
const SUFFIXES: [&str; 8] = ["_bucket", "_sum", "_count", "_total", "_info", "_seconds", "_bytes", "_ratio"];

/// Words that begin like a metric and end before anything else; not `handfast_tls::`, and not the beginning of names.
fn metrics(line: &str) -> Vec<&str> {
    let word = |at: usize| {
        let rest = &line[at..];
        let end = rest.find(|c: char| !c.is_ascii_alphanumeric() && c != '_').unwrap_or(rest.len());
        (&rest[..end], &rest[end..])
    };
    let starts = line.match_indices("handfast_").filter(|(at, _)| !line[..*at].ends_with(['/', '-', '_']));
    let words = starts.map(|(at, _)| word(at));
    words
        .filter(|(word, after)| !after.starts_with("::") && !word.ends_with('_'))
        .map(|(word, _)| word)
        .collect()
}

fn unknown_metrics(document: &SourceFile, code: &str) -> Vec<Complaint> {
    let known = |name: &str| {
        let mut name = name;
        loop {
            if code.contains(&format!("\"{name}\"")) {
                return true;
            }
            match SUFFIXES.iter().find_map(|suffix| name.strip_suffix(suffix)) {
                Some(shorter) => name = shorter,
                None => return false,
            }
        }
    };
    let in_line = |(index, line): (usize, &str)| {
        let unknown: Vec<Complaint> = metrics(line)
            .into_iter()
            .filter(|name| !known(name))
            .map(|name| {
                let what =
                    format!("`{name}` is no metric of the program; hint: the names are in its /metrics");
                Complaint::new(&document.path, index + 1, what)
            })
            .collect();
        unknown
    };
    document.text.lines().enumerate().flat_map(in_line).collect()
}

/// The part of a document below a heading, to the next of the same rank.
fn section<'t>(text: &'t str, heading: &str) -> &'t str {
    let (_, rest) = text.split_once(&format!("\n{heading}\n")).unwrap_or(("", ""));
    let rank = heading.split(' ').next().unwrap_or_default();
    rest.split(&format!("\n{rank} ")).next().unwrap_or_default()
}

/// Rows of the page's table of limits whose default is not that of the reference, which is generated.
fn other_defaults(page: &str, reference: &str) -> Vec<Complaint> {
    let limits = section(reference, "## `[limits]`");
    let rows = section(page, "## Limits and timeouts").lines().filter_map(|line| {
        let mut cells = line.strip_prefix("| `")?.split(" | ");
        Some((cells.next()?.strip_suffix('`')?, cells.next()?))
    });
    let other = |(key, mentions): (&str, &str)| {
        let entry = section(limits, &format!("### `{key}`"));
        let default = entry.split_once("- Default: `").and_then(|(_, rest)| rest.split('`').next());
        let default = default.unwrap_or("not there").trim_matches('"').to_owned();
        (mentions.replace(' ', "") != default).then(|| {
            let what =
                format!("the default of `{key}` is given as {mentions}, in the reference it is {default}");
            Complaint::new(LIMITS_PAGE, 0, what)
        })
    };
    rows.filter_map(other).collect()
}

fn text_of(path: &str) -> String {
    let file = super::root().join(path);
    std::fs::read_to_string(&file).unwrap_or_else(|error| panic!("{path}: {error}"))
}

fn is_document(file: &SourceFile) -> bool {
    file.path.ends_with(".md") && file.path != "CHANGELOG.md"
}

#[test]
fn figures_in_documents_are_the_codes() {
    assert_none(&FIGURES.iter().flat_map(|one| figure(one, text_of)).collect::<Vec<_>>());
}

#[test]
fn metrics_in_documents_exist() {
    let code: String = tracked_files()
        .iter()
        .filter(|file| file.is_rust() && file.path.contains("/src/"))
        .map(|file| file.text.as_str())
        .collect();
    check_files(is_document, |document| unknown_metrics(document, &code));
}

#[test]
fn defaults_in_the_table_of_limits_are_the_references() {
    let (page, reference) = (text_of(LIMITS_PAGE), text_of("docs/reference/configuration.md"));
    assert!(section(&page, "## Limits and timeouts").lines().count() > 10, "the table has moved");
    assert_none(&other_defaults(&page, &reference));
}

/// A row that a page has twice is in a table whose columns it does not have, or will be changed in one place alone.
fn repeated_rows(document: &SourceFile) -> Vec<Complaint> {
    let mut rows = std::collections::HashMap::new();
    let is_row = |line: &str| line.starts_with("| ") && line.matches(" | ").count() >= 2;
    let lines = document.text.lines().enumerate().filter(|(_, line)| is_row(line) && line.len() > 100);
    lines
        .filter_map(|(number, line)| {
            let first: usize = rows.insert(line.to_owned(), number + 1)?;
            Some(Complaint::new(
                &document.path,
                number + 1,
                format!("the row is in line {first} too; hint: keep one"),
            ))
        })
        .collect()
}

#[test]
fn no_row_is_in_two_tables_of_a_page() {
    let is_page = |file: &SourceFile| file.path.starts_with("docs/diagnose/") && is_document(file);
    check_files(is_page, repeated_rows);
    let row = format!("| `word` | {} | fix |\n", "x".repeat(100));
    let found = repeated_rows(&sample("docs/x.md", &format!("{row}\ntext\n\n{row}")));
    assert!(found.len() == 1 && found[0].line == 5 && found[0].what.contains("line 1 too"), "{found:?}");
}

#[test]
fn what_has_drifted_is_seen() {
    let one = Figure { source: "a.rs", constant: "const A: u8 = 1;", mentions: &[("b.md", "one thing")] };
    let files = |code: &'static str, document: &'static str| {
        move |path: &str| if path == "a.rs" { code.to_owned() } else { document.to_owned() }
    };
    assert_eq!(figure(&one, files("const A: u8 = 1;", "has one\nthing")), []);
    assert_eq!(figure(&one, files("const A: u8 = 2;", "has one thing"))[0].path, "a.rs");
    assert_eq!(figure(&one, files("const A: u8 = 1;", "has two things"))[0].path, "b.md");

    let document = sample(
        "docs/x.md",
        "`handfast_loop_turns_total` in `handfast_pki::load`, handfast_load_*\n`handfast_wrong_total`, handfast_lag_seconds_bucket",
    );
    let found = unknown_metrics(&document, "\"handfast_loop_turns\", \"handfast_lag\"");
    assert_eq!(found.len(), 1, "{found:?}");
    assert!(found[0].line == 2 && found[0].what.contains("handfast_wrong_total"), "{found:?}");

    let page = "x\n## Limits and timeouts\n\n| `connect` | 5 s | dialling |\n| `idle` | 1 h | silence |\n| `gone` | 1 s | |\n\n## Next\n| `connect` | 9 s |\n";
    let reference = "x\n## `[limits]`\n\n### `connect`\n\n- Default: `\"5s\"`. Why\n\n### `idle`\n\n- Default: `\"2h\"`. Why\n\n## Next\n";
    let found = other_defaults(page, reference);
    assert_eq!(found.len(), 2, "{found:?}");
    assert!(
        found[0].what.contains("`idle` is given as 1 h") && found[1].what.contains("not there"),
        "{found:?}"
    );
}
