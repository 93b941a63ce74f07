//! Rules about words: citations, work left undone, and paths of a developer's machine.

use super::{Complaint, SourceFile, check_files, sample};

/// TLS 1.3's first number. Its successor numbers the sections otherwise, so the two must not be mixed.
const OLD_TLS: &str = concat!("84", "46");
/// TLS 1.3 as we cite it.
const TLS: &str = "9846";
/// Words that mark work left undone.
const UNDONE: &str = concat!("TO", "DO");
const NAMELESS: [&str; 2] = [concat!("FIX", "ME"), concat!("XX", "X")];
/// Folders of one person's machine.
const MACHINE: [&str; 2] = [concat!("/wo", "rk/"), concat!("/ro", "ot/")];

/// Applies a rule to each line.
fn by_line(file: &SourceFile, rule: impl Fn(&str) -> Option<String>) -> Vec<Complaint> {
    let complain = |(index, line)| rule(line).map(|what| Complaint::new(&file.path, index + 1, what));
    file.text.lines().enumerate().filter_map(complain).collect()
}

/// Returns true if the text ends in `RFC NNNN `, or in a citation and a joint that goes on with it: `RFC NNNN section and `.
fn ends_in_rfc_number(text: &str) -> bool {
    let section = |part: &str| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_alphanumeric());
    let goes_on = |text: &str| {
        let joined = text.rsplit_once('\u{a7}');
        joined.is_some_and(|(before, number)| number.split('.').all(section) && ends_in_rfc_number(before))
    };
    if [" and ", ", ", " to "].iter().filter_map(|joint| text.strip_suffix(joint)).any(goes_on) {
        return true;
    }
    let Some((before, number)) = text.strip_suffix(' ').and_then(|text| text.rsplit_once(' ')) else {
        return false;
    };
    (3..=5).contains(&number.len())
        && number.bytes().all(|byte| byte.is_ascii_digit())
        && before.ends_with("RFC")
}

fn citation(line: &str) -> Option<String> {
    let squeezed = line.to_ascii_lowercase().replace([' ', '-'], "");
    if squeezed.contains(&format!("rfc{OLD_TLS}")) {
        return Some(format!(
            "cites RFC {OLD_TLS}; hint: RFC {TLS} obsoletes it, and numbers its sections otherwise"
        ));
    }
    let glued = |at: usize| line[at + 3..].starts_with(|c: char| c.is_ascii_digit() || c == '-');
    if line.match_indices("RFC").any(|(at, _)| glued(at)) {
        return Some(format!("an RFC without the space; hint: `RFC {TLS} \u{a7}4.2.3`"));
    }
    let bare = line.match_indices('\u{a7}').any(|(at, _)| !ends_in_rfc_number(&line[..at]));
    bare.then(|| {
        format!("a section without its RFC; hint: `RFC {TLS} \u{a7}4.2.3`, number and section each time")
    })
}

fn undone(line: &str) -> Option<String> {
    let word = |word: &str| {
        let mut found = line.match_indices(word);
        found.any(|(at, _)| {
            !line[..at].ends_with(char::is_alphanumeric)
                && !line[at + word.len()..].starts_with(char::is_alphanumeric)
        })
    };
    if let Some(name) = NAMELESS.iter().find(|name| word(name)) {
        return Some(format!("{name}: hint: mend it, or write `{UNDONE}(what it waits for): …`"));
    }
    let explained = line.split_once(UNDONE).is_some_and(|(_, rest)| {
        rest.strip_prefix('(')
            .and_then(|rest| rest.split_once("): "))
            .is_some_and(|(reason, _)| reason.len() > 2)
    });
    (word(UNDONE) && !explained)
        .then(|| format!("{UNDONE} without its reason; hint: `{UNDONE}(what it waits for): …`"))
}

fn machine_path(line: &str) -> Option<String> {
    let begins = |folder: &str| {
        line.match_indices(folder)
            .any(|(at, _)| !line[..at].ends_with(|c: char| c.is_alphanumeric() || "._-}*".contains(c)))
    };
    let folder = MACHINE.iter().find(|folder| begins(folder))?;
    Some(format!(
        "names {folder}, a folder of one machine; hint: a path from the root of the repository, or an example under /etc or /srv"
    ))
}

#[test]
fn citations_carry_number_and_section() {
    let written_by_us = |file: &SourceFile| file.is_rust() || file.path.ends_with(".md");
    check_files(written_by_us, |file| by_line(file, citation));
}

#[test]
fn undone_work_names_what_it_waits_for() {
    let code =
        |file: &SourceFile| [".rs", ".toml", ".sh", "Makefile"].iter().any(|end| file.path.ends_with(end));
    check_files(code, |file| by_line(file, undone));
}

#[test]
fn no_file_names_a_path_of_one_machine() {
    check_files(|_| true, |file| by_line(file, machine_path));
}

#[test]
fn a_bad_citation_is_seen() {
    let old = format!("// RFC {OLD_TLS} \u{a7}4.2");
    for bad in [
        old.as_str(),
        &format!("rfc{OLD_TLS}"),
        "// see \u{a7}4.2",
        "RFC 9846 \u{a7}4.2, see \u{a7}5",
        concat!("// R", "FC9846 \u{a7}4"),
    ] {
        assert_eq!(by_line(&sample("a.rs", bad), citation).len(), 1, "{bad}");
    }
    for good in [
        "// RFC 9846 \u{a7}4.2.3",
        "RFC 5246 \u{a7}7.2.1 and RFC 6066 \u{a7}3",
        "RFC 9846 \u{a7}5.1, \u{a7}4.2 and \u{a7}B.4; RFC 5246 \u{a7}6.2.1",
        "rfc-editor.org/rfc/rfc9846",
    ] {
        assert_eq!(citation(good), None, "{good}");
    }
}

#[test]
fn undone_work_is_seen() {
    for bad in [format!("// {UNDONE}: later"), format!("// {UNDONE}(): x"), format!("# {}", NAMELESS[0])] {
        assert!(undone(&bad).is_some(), "{bad}");
    }
    assert_eq!(undone(&format!("// {UNDONE}(kernel 6.20): use it")), None);
    assert_eq!(undone("mastodon"), None);
}

#[test]
fn a_path_of_one_machine_is_seen() {
    assert!(machine_path(&format!("cd {}main", MACHINE[0])).is_some());
    assert!(machine_path(&format!("\"{}x\"", MACHINE[1])).is_some());
    assert_eq!(machine_path("tests/net/wo"), None);
    assert_eq!(machine_path(&format!("folder{}", MACHINE[0])), None);
}
