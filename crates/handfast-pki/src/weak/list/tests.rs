//! Tests that lists in each form hold the same, and that a fault is reported with its line.

use super::*;
use crate::weak::tests::{lines, sample};
use handfast_testkit::maker::Folder;

const CSV: &str = include_str!("../tests/debian-sample.csv");

/// The same keys as `openssl-blacklist` has them.
fn blacklist() -> String {
    let entries = lines(CSV).filter_map(|line| line.rsplit(',').next().filter(|entry| entry.len() == 20));
    let text: Vec<_> = entries.collect();
    assert!(text.len() > 20);
    format!("# Blacklist of RSA keys\n\n{}\n", text.join("\n"))
}

fn loaded(folder: &Folder, content: impl AsRef<[u8]>) -> LoadedLists {
    load(&[folder.put("list", content)], None)
}

/// Returns the finding about a file that is no list.
fn finding(content: impl AsRef<[u8]>) -> String {
    let folder = Folder::new();
    let loaded = loaded(&folder, content);
    assert!(loaded.lists.is_empty());
    let [finding] = &loaded.findings[..] else { panic!("{:?}", loaded.findings) };
    finding.message.clone()
}

fn finds(lists: &Lists, name: &str) -> bool {
    let (modulus, exponent) = sample(name);
    lists.find(&PublicKey::Rsa { modulus: &modulus, exponent: &exponent }).is_some()
}

#[test]
fn a_key_is_found_in_each_form() {
    let folder = Folder::new();
    let bare: String =
        lines(CSV).skip(1).map(|line| format!("{}\n", line.split(',').nth(4).unwrap())).collect();
    let quoted = CSV.replace(',', "\";\"");
    for content in [CSV.to_owned(), CSV.to_uppercase(), CSV.replace('\n', "\r\n"), bare, quoted, blacklist()]
    {
        let file = folder.put("list", &content);
        let text = load(std::slice::from_ref(&file), None).lists;
        let packed = folder.at("packed");
        let counts = pack(&[file], &packed).unwrap();
        assert_eq!(text.counts().next().unwrap().1, counts.sha256 + counts.blacklist);
        for lists in [text, load(&[packed], None).lists] {
            assert!(finds(&lists, "debian-2048-a") && finds(&lists, "debian-2048-b"), "{content}");
            assert!(!finds(&lists, "good-2048"));
        }
    }
}

#[test]
fn several_lists_are_packed_into_one() {
    let folder = Folder::new();
    let (csv, old) = (folder.put("a.csv", CSV), folder.put("blacklist.RSA-2048", blacklist()));
    let both = folder.at("both");
    let counts = pack(&[csv.clone(), old.clone(), csv.clone()], &both).unwrap();
    assert_eq!(counts.sha256, lines(CSV).count() - 1);
    assert_eq!(counts.blacklist, blacklist().lines().count() - 2);
    // A packed list can be packed again, over itself.
    let before = fs::read(&both).unwrap();
    assert_eq!(pack(std::slice::from_ref(&both), &both).unwrap(), counts);
    assert_eq!(fs::read(&both).unwrap(), before);
    assert!(!folder.at("both.new").exists());
    // Nothing is written when an input is none, and all that are none are named.
    let bad = folder.put("bad", "nonsense\n");
    let error = pack(&[bad, csv, folder.at("none")], &both).unwrap_err().to_string();
    assert!(error.contains("/bad: line 1: no known key in it") && error.contains("/none: is not there"));
    assert_eq!(fs::read(&both).unwrap(), before);
    let error = pack(&[old], &folder.at("no/folder")).unwrap_err().to_string();
    assert!(error.starts_with("write ") && error.contains("No such file"), "{error}");
}

#[test]
fn what_is_no_list_is_reported_with_its_line() {
    assert_eq!(finding(""), "is empty, expected a list of known keys");
    assert_eq!(finding("# only a remark\n"), "holds no entry, expected known keys");
    assert_eq!(finding("sha256,name\n"), "holds no entry, expected known keys");
    assert_eq!(finding("8b4611b0db08e2eabca8\n\n8b4611b0db08e2eabca\n"), "line 3: no known key in it");
    assert_eq!(finding("8b4611b0db08e2eabca8\nname,sha256\n"), "line 2: no known key in it");
    assert_eq!(finding("name,sha256\nx,8b4611b0db08e2eabca8\n"), "line 2: no known key in it");
    assert_eq!(finding("8b4611b0db08e2eabcag\n"), "line 1: no known key in it");
    assert_eq!(finding(b"\x1f\x8b\x08\x00\xff"), "line 1: not text");
    let long = "8b4611b0db08e2eabca8\n".to_owned() + &"x".repeat(10_000);
    assert_eq!(finding(long), "line 2: no known key in it");
    let (a, b) = ("a".repeat(64), "b".repeat(64));
    // Of several hashes the one that the heading names counts.
    let folder = Folder::new();
    let lists = loaded(&folder, format!("key,modulus SHA-256\n{a},{b}\n")).lists;
    assert_eq!(lists.lists[0].entries.sha256, [[0xbb; 10]]);
}

#[test]
fn a_packed_list_that_is_cut_or_changed_anywhere_is_refused() {
    let folder = Folder::new();
    let packed = folder.at("packed");
    pack(
        &[folder.put("list", "8b4611b0db08e2eabca8\nfa3c6ba380633ef11bd2\n"), folder.put("a.csv", CSV)],
        &packed,
    )
    .unwrap();
    let good = fs::read(&packed).unwrap();
    for end in 1..good.len() {
        let words = finding(&good[..end]);
        assert!(words == "is cut short" || words.starts_with("line 1: "), "{end}: {words}");
    }
    for place in 0..good.len() {
        for bit in [1, 0x80] {
            let mut changed = good.clone();
            changed[place] ^= bit;
            let words = finding(&changed);
            // A file that does not even begin as one is read as text.
            assert_eq!(words.starts_with("line "), place < 16, "{place}: {words}");
        }
    }
    let mut longer = good;
    longer.push(0);
    assert_eq!(finding(&longer), "goes on after its last entry");
}

#[test]
fn a_list_that_breaks_stays_as_it_was() {
    let folder = Folder::new();
    let files = [folder.put("list", CSV), folder.put("other", blacklist())];
    let first = load(&files, None);
    // Nothing has changed: nothing is read, and everything stays where it is.
    let again = load(&files, Some(&first.lists));
    assert!(Arc::ptr_eq(&first.lists, &again.lists));
    folder.put("list", "nonsense\n");
    let broken = load(&files, Some(&first.lists));
    assert!(broken.findings.is_empty() && broken.kept.len() == 1, "{broken:?}");
    assert!(finds(&broken.lists, "debian-2048-a"));
    assert!(Arc::ptr_eq(&first.lists.lists[1], &broken.lists.lists[1]));
    // It is not taken for the file as it is now: that one is looked at again.
    assert_eq!(load(&files, Some(&broken.lists)).kept.len(), 1);
    folder.put("list", CSV);
    let mended = load(&files, Some(&broken.lists));
    assert!(mended.kept.is_empty() && finds(&mended.lists, "debian-2048-a"));
    // If there is none before, it is an error.
    folder.put("list", "nonsense\n");
    assert_eq!(load(&files, None).findings.len(), 1);
    assert!(load(&[], Some(&first.lists)).lists.is_empty());
}
