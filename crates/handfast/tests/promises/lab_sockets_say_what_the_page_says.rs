//! `handfast lab sockets` makes every case on this kernel, finds it as the page in the documents says, where there is one for
//! this kernel, and changes nothing of the machine's own network.

use std::fs;
use std::process::{Command, Output, Stdio};

use serde_json::Value;

use super::support::folder::Folder;
use super::support::proxy::PROGRAM;
use super::support::skip::skipped;

/// Columns of the page that do not depend on how fast the machine is: all but the last.
const TIMELESS: usize = 7;
/// Files that would change if an experiment reached the machine's own network.
const OWN: [&str; 3] = ["/proc/net/dev", "/proc/net/route", "/proc/sys/net/ipv4/ip_local_port_range"];

fn sockets(words: &[&str]) -> Output {
    let mut command = Command::new(PROGRAM);
    command.args(["lab", "sockets"]).args(words).stdin(Stdio::null()).env("RUST_BACKTRACE", "0");
    command.output().unwrap_or_else(|error| panic!("start {command:?}: {error}"))
}

/// The same, up to three times, until each case is the same in all of its runs. A process that gets no processor for half a second is late for
/// a timer of the kernel, and sees what comes after it.
fn settled(words: &[&str]) -> Output {
    (0..2).map(|_| sockets(words)).find(|ended| ended.status.success()).unwrap_or_else(|| sockets(words))
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).expect("it speaks UTF-8")
}

/// State of the machine's own network: its interfaces, routes and ports, without the counters.
fn own_network() -> Vec<String> {
    let words = |file: &str| {
        let text = fs::read_to_string(file).unwrap_or_default();
        let counted = file.ends_with("dev");
        let known = |line: &str| {
            if counted { line.split(':').next().unwrap_or("").to_owned() } else { line.to_owned() }
        };
        text.lines().map(known).collect::<Vec<_>>()
    };
    OWN.iter().flat_map(|file| words(file)).collect()
}

/// The cells of a page, each with its row, without their times.
fn cells(page: &str) -> Vec<String> {
    let mut row = "";
    let mut cells = Vec::new();
    for line in page.lines() {
        if let Some(name) = line.strip_prefix("## ") {
            row = name;
        }
        let columns: Vec<&str> = line.trim_matches('|').split(" | ").collect();
        if line.starts_with("| ") && columns.len() == TIMELESS + 1 && !row.is_empty() {
            cells.push(format!("{row}: {}", columns[..TIMELESS].join(" | ")));
        }
    }
    cells
}

#[test]
fn every_case_is_made_and_named_on_this_kernel() {
    let folder = Folder::new();
    let (json, page) = (folder.file("matrix.json"), folder.file("matrix.md"));
    let before = own_network();
    let path = |path: &std::path::Path| path.display().to_string();
    let ended = settled(&["--runs", "2", "--json", &path(&json), "--page", &path(&page)]);
    let (screen, talk) = (text(&ended.stdout), text(&ended.stderr));
    for refusal in ["make namespaces", "/dev/net/tun"] {
        if talk.contains(refusal) {
            skipped!("{}", talk.lines().next().unwrap_or("there can be no laboratory here"));
        }
    }
    assert_eq!(ended.status.code(), Some(0), "{screen}\n{talk}");
    assert_eq!(own_network(), before, "the machine's own network is as it was");

    let matrix: Value =
        serde_json::from_str(&fs::read_to_string(&json).expect("it was written")).expect("JSON");
    assert_eq!(matrix["schema"], "handfast-sockets/1");
    let rows = matrix["rows"].as_array().expect("rows");
    assert!(rows.len() > 40, "{} rows", rows.len());
    for row in rows {
        assert_eq!(row["cells"].as_array().map(Vec::len), Some(7), "{row}");
        assert!(screen.contains(&format!("\n{}: ", row["name"].as_str().expect("a name"))), "{row}");
    }
    let differences = matrix["differences"].as_array().expect("differences");
    assert!(differences.iter().all(|difference| difference["reason"].is_string()), "{differences:?}");

    let measured = fs::read_to_string(&page).expect("it was written");
    let version = measured.lines().find_map(|line| line.strip_prefix("# What sockets say on Linux "));
    let version = version.expect("the page names the kernel");
    let kept = format!("{}/../../docs/reference/sockets-linux-{version}.md", env!("CARGO_MANIFEST_DIR"));
    let Ok(kept) = fs::read_to_string(kept) else { return };
    let (kept, measured) = (cells(&kept), cells(&measured));
    assert!(kept.len() >= 7 * 40, "{} cells on the page", kept.len());
    let skipped_here = |cell: &&String| !cell.contains("SKIPPED");
    let new: Vec<_> = measured.iter().filter(skipped_here).filter(|cell| !kept.contains(cell)).collect();
    assert!(new.is_empty(), "not as docs/reference/sockets-linux-{version}.md says: {new:#?}");
}

#[test]
fn a_cable_does_where_there_is_no_tun_device() {
    let rows = ["peer-resets", "icmp-admin", "interface-down", "reset-by-path"];
    let words: Vec<&str> =
        rows.iter().flat_map(|row| ["--only", row]).chain(["--engine", "veth", "--runs", "3"]).collect();
    let ended = settled(&words);
    let (screen, talk) = (text(&ended.stdout), text(&ended.stderr));
    for refusal in ["make namespaces", "lay a cable", "listen to"] {
        if talk.contains(refusal) {
            skipped!("{}", talk.lines().next().unwrap_or("there can be no laboratory here"));
        }
    }
    assert_eq!(ended.status.code(), Some(0), "{screen}\n{talk}");
    assert!(screen.contains("28 cells measured, 28 the same in 3 of 3 runs"), "{screen}");
}

#[test]
fn rows_are_listed_and_a_wrong_one_is_refused() {
    let listed = text(&sockets(&["--list"]).stdout);
    assert!(listed.lines().any(|line| line.starts_with("peer-resets ")), "{listed}");
    let ended = sockets(&["--only", "peer-rests"]);
    assert_eq!(ended.status.code(), Some(2));
    let talk = text(&ended.stderr);
    assert!(talk.contains("row \"peer-rests\": there is no such row\nhint: "), "{talk}");
    assert_eq!(sockets(&["--list", "--runs", "2"]).status.code(), Some(2), "there is nothing to run");
    assert_eq!(sockets(&["--runs", "0"]).status.code(), Some(2));
}
