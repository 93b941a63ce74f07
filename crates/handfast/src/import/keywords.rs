//! The tables compared with the keywords of programs: those that are installed, and those below `HANDFAST_PEERS`, where newer packages of Debian
//! are unpacked.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use handfast_import::{Origin, Row};

use crate::talk;

/// The folders in which programs and manuals are looked for.
fn roots() -> Vec<PathBuf> {
    let newest = std::env::var_os("HANDFAST_PEERS").map(PathBuf::from);
    std::iter::once(PathBuf::from("/")).chain(newest).collect()
}

/// Files at this path in each root; reports those that are not there.
fn found(path: &str) -> Vec<PathBuf> {
    let is_there = |file: &PathBuf| {
        if !file.exists() {
            talk::err(&format!("skipped: {} is not installed", file.display()));
        }
        file.exists()
    };
    roots().iter().map(|root| root.join(path)).filter(is_there).collect()
}

/// Standard output of a program, which has the libraries of its root.
fn output(program: &Path, path: &str, arguments: &[&str]) -> String {
    let root = program.ancestors().nth(Path::new(path).components().count()).unwrap_or(Path::new("/"));
    let loader = root.join("usr/lib64/ld-linux-x86-64.so.2");
    let mut command = if root == Path::new("/") {
        Command::new(program)
    } else {
        let mut command = Command::new(loader);
        command.arg("--library-path").arg(root.join("usr/lib/x86_64-linux-gnu")).arg(program);
        command
    };
    let output = command.args(arguments).output().expect("it is there");
    String::from_utf8_lossy(&output.stdout).into_owned()
}

fn unpacked(file: &Path) -> String {
    let mut text = Vec::new();
    let file = File::open(file).expect("it is there");
    flate2::read::GzDecoder::new(file).read_to_end(&mut text).expect("it is compressed");
    String::from_utf8_lossy(&text).into_owned()
}

fn missing<'n>(origin: Origin, names: impl IntoIterator<Item = &'n String>) -> Vec<&'n String> {
    names.into_iter().filter(|name| origin.row(name).is_none()).collect()
}

#[test]
fn every_option_of_a_manual_has_a_row() {
    let pages = [
        (Origin::Stunnel, "usr/share/man/man8/stunnel.8.gz"),
        (Origin::Hitch, "usr/share/man/man5/hitch.conf.5.gz"),
    ];
    for (origin, path) in pages {
        for page in found(path) {
            let options = options_of(&unpacked(&page));
            assert!(options.len() > 30, "{} was not understood: {options:?}", page.display());
            let rows: Vec<_> = origin.rows().iter().map(|row| row.name.to_lowercase()).collect();
            let missing: Vec<_> =
                options.iter().filter(|option| !rows.contains(&option.to_lowercase())).collect();
            assert!(missing.is_empty(), "{}: no row for {missing:?}", page.display());
        }
    }
}

#[test]
fn every_directive_of_nginx_has_a_row() {
    let modules = found("usr/lib/nginx/modules/ngx_stream_module.so");
    for program in found("usr/sbin/nginx").into_iter().chain(modules) {
        let directives = directives_of(&program);
        assert!(directives.len() > 40, "{} was not understood: {directives:?}", program.display());
        let missing = missing(Origin::Nginx, &directives);
        assert!(missing.is_empty(), "{}: no row for {missing:?}", program.display());
    }
}

#[test]
fn every_module_of_caddy_has_a_row() {
    let path = "usr/bin/caddy";
    for program in found(path) {
        let list = output(&program, path, &["list-modules"]);
        let modules: Vec<_> = list.lines().filter_map(module_of).collect();
        assert!(modules.len() > 50, "the list was not understood: {list}");
        let missing = missing(Origin::Caddy, &modules);
        assert!(missing.is_empty(), "{}: no row for {missing:?}", program.display());
    }
}

#[test]
fn every_keyword_of_haproxy_has_a_row() {
    let path = "usr/sbin/haproxy";
    for program in found(path) {
        let list = output(&program, path, &["-dKall", "-q", "-c", "-f", "/dev/null"]);
        let keywords = keywords_of(&list);
        assert!(keywords.len() > 700, "the list was not understood: {keywords:?}");
        no_keyword_is_missing(&program, &keywords);
    }
    for manual in found("usr/share/doc/haproxy/configuration.txt.gz") {
        let of_proxies = matrix_of(&unpacked(&manual));
        assert!(of_proxies.len() > 150, "the manual was not understood: {of_proxies:?}");
        // The second word of some is a detail of the first one.
        let first = |name: &str| name.split(' ').next().unwrap_or_default().to_owned();
        let known = |name: &String| Origin::Haproxy.row(name).map_or_else(|| first(name), |_| name.clone());
        let keywords: Vec<_> = of_proxies.iter().map(known).collect();
        no_keyword_is_missing(&manual, &keywords);
    }
}

fn no_keyword_is_missing(source: &Path, keywords: &[String]) {
    // A word that is first in longer names, such as `timeout`.
    let begins_others = |name: &str| {
        let rest = |row: &Row| row.name.strip_prefix(name).map(|rest| rest.starts_with([' ', '(']));
        Origin::Haproxy.rows().iter().any(|row| rest(row) == Some(true))
    };
    let missing: Vec<_> =
        missing(Origin::Haproxy, keywords).into_iter().filter(|name| !begins_others(name)).collect();
    assert!(missing.is_empty(), "{}: no row for {missing:?}", source.display());
}

/// The name of a row for a module of Caddy's JSON that configurations name.
fn module_of(id: &str) -> Option<String> {
    const KINDS: [(&str, &str); 7] = [
        ("http.handlers.", "handler"),
        ("http.matchers.", "match"),
        ("http.reverse_proxy.selection_policies.", "policy"),
        ("http.reverse_proxy.transport.", "protocol"),
        ("http.authentication.providers.", "authentication"),
        ("tls.issuance.", "issuer"),
        ("caddy.listeners.", "wrapper"),
    ];
    KINDS.iter().find_map(|(start, kind)| Some(format!("{kind} {}", id.strip_prefix(start)?)))
}

/// The directives of nginx or of a module: entries `{ length, text, type, function, … }` of its tables, whose two addresses are relocated.
fn directives_of(program: &Path) -> BTreeSet<String> {
    /// `NGX_MAIN_CONF` and those above it: where a directive may be.
    const CONTEXTS: u64 = 0xff00_0000;
    let elf = Elf::read(program);
    let mut found = BTreeSet::new();
    for (at, text) in &elf.addresses {
        let is_command = !elf.relocated.contains(&(at + 8)) && elf.relocated.contains(&(at + 16));
        let fields = || Some((elf.number(at - 8)?, elf.number(at + 8)?, elf.offset(*text)?));
        let Some((length, kind, start)) = fields().filter(|_| is_command) else { continue };
        let end = start + usize::try_from(length).unwrap_or(usize::MAX).min(64);
        let name = elf.bytes.get(start..end).unwrap_or_default();
        let is_word = |byte: &u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || *byte == b'_';
        if kind & CONTEXTS != 0 && !name.is_empty() && name.iter().all(is_word) && elf.bytes[end] == 0 {
            found.insert(String::from_utf8_lossy(name).into_owned());
        }
    }
    found
}

/// A program of 64 bits.
struct Elf {
    bytes: Vec<u8>,
    /// Parts that are loaded: address, offset in the file, length.
    segments: Vec<(u64, u64, u64)>,
    /// The addresses in it, by their own address.
    addresses: BTreeMap<u64, u64>,
    /// Places of addresses, also those that are in a library.
    relocated: BTreeSet<u64>,
}

impl Elf {
    fn read(program: &Path) -> Self {
        let mut elf =
            Self { bytes: Vec::new(), segments: Vec::new(), addresses: [].into(), relocated: [].into() };
        File::open(program).and_then(|mut file| file.read_to_end(&mut elf.bytes)).expect("it is there");
        let (segments, sections) = (elf.at(32), elf.at(40));
        for at in (0..elf.at(56) & 0xffff).map(|index| segments + index * 56) {
            if elf.at(at) & 0xffff_ffff == 1 {
                elf.segments.push((elf.at(at + 16), elf.at(at + 8), elf.at(at + 32)));
            }
        }
        for at in (0..elf.at(60) & 0xffff).map(|index| sections + index * 64) {
            let (is_rela, start, length) = (elf.at(at) >> 32 == 4, elf.at(at + 24), elf.at(at + 32));
            for entry in (start..start + length).step_by(24).filter(|_| is_rela) {
                elf.relocated.insert(elf.at(entry));
                // R_X86_64_RELATIVE, R_AARCH64_RELATIVE.
                if [8, 1_027].contains(&elf.at(entry + 8)) {
                    elf.addresses.insert(elf.at(entry), elf.at(entry + 16));
                }
            }
        }
        elf
    }

    /// A number at an offset of the file; zero behind its end.
    fn at(&self, offset: u64) -> u64 {
        let start = usize::try_from(offset).unwrap_or(usize::MAX);
        let bytes = start.checked_add(8).and_then(|end| self.bytes.get(start..end));
        bytes.and_then(|bytes| bytes.try_into().ok()).map_or(0, u64::from_le_bytes)
    }

    fn offset(&self, address: u64) -> Option<usize> {
        let (start, offset, _) =
            self.segments.iter().find(|(start, _, length)| (*start..start + length).contains(&address))?;
        usize::try_from(address - start + offset).ok()
    }

    fn number(&self, address: u64) -> Option<u64> {
        self.offset(address).map(|offset| self.at(offset as u64))
    }
}

/// The keywords in the manual's table of sections: `timeout check      X   -   X   X`.
fn matrix_of(manual: &str) -> Vec<String> {
    let is_column = |word: &str| ["X", "-", "(!)", "(*)", "(deprecated)"].contains(&word);
    let mut keywords = Vec::new();
    for line in manual.lines() {
        let words: Vec<_> = line.split_whitespace().collect();
        let columns = words.iter().rev().take_while(|word| is_column(word)).count();
        let marks = words.iter().filter(|word| ["X", "-"].contains(word)).count();
        if marks == 4 && columns >= 4 && columns < words.len() && !line.starts_with(' ') {
            keywords.push(words[..words.len() - columns].join(" "));
        }
    }
    keywords
}

/// The keywords of `haproxy -dKall`, by the names that rows have.
fn keywords_of(list: &str) -> Vec<String> {
    let (mut keywords, mut part, mut section) = (Vec::new(), "", "");
    for line in list.lines() {
        if let Some(title) = line.strip_prefix("# List of registered ") {
            part = title;
        } else if part.starts_with("configuration") && !line.starts_with('\t') {
            section = line;
        } else if part.starts_with("sample fetch") && line.starts_with('[') {
            let name = line.split_once("] ").map_or("", |(_, name)| name);
            keywords.push(format!("fetch {}", name.split(['(', ':']).next().unwrap_or_default()));
        } else if part.starts_with("ACL") {
            keywords.push(format!("fetch {}", line.split(' ').next().unwrap_or_default()));
        } else if part.starts_with("configuration") {
            let words: Vec<_> = line.trim().trim_end_matches('*').split_whitespace().collect();
            match (section, &words[..]) {
                ("global", [name, ..]) => keywords.push(format!("global {name}")),
                ("listen", ["bind", _, "ssl", name, ..] | ["bind", _, name, ..]) => {
                    keywords.push(format!("bind … {name}"));
                }
                ("listen", ["server", _, _, name, ..]) => keywords.push(format!("server … {name}")),
                ("listen", ["http-after-response", name @ ("set-header" | "add-header" | "del-header")]) => {
                    keywords.push(format!("http-response {name}"));
                }
                ("listen", ["tcp-response", ..]) => keywords.push("tcp-response".into()),
                ("listen", ["option", name, ..]) => keywords.push(format!("option {name}")),
                ("listen", all) => keywords.push(all.join(" ")),
                _ => {}
            }
        }
    }
    keywords
}

/// The words before `=` in headings of a page: `.IP "\fBTIMEOUTbusy\fR = \s-1SECONDS\s0" 4`, `.SS pem\-file = <string>`, or after a `.IP`, in
/// newer ones, `\f[B]accept\f[R] = [HOST:]PORT`.
fn options_of(page: &str) -> Vec<String> {
    let mut options: Vec<String> = Vec::new();
    let mut is_heading = false;
    for line in page.lines() {
        let heading = line.strip_prefix(".IP \"").or_else(|| line.strip_prefix(".SS "));
        let heading = heading.or_else(|| Some(line).filter(|line| is_heading && line.starts_with("\\f[B]")));
        is_heading = line.starts_with(".IP \\(bu");
        let Some((name, _)) = heading.and_then(|heading| heading.split_once(" = ")) else { continue };
        let marks = ["\\fB", "\\fR", "\\f[B]", "\\f[R]", "\\s-1", "\\s0"];
        let name = marks.iter().fold(name.to_owned(), |name, mark| name.replace(mark, ""));
        let name = name.replace("\\-", "-");
        if name.chars().all(|letter| letter.is_ascii_alphanumeric() || letter == '-') {
            options.push(name);
        }
    }
    options.sort_unstable();
    options.dedup();
    options
}
