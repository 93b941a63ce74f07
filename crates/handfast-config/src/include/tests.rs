//! Included files: what they may have, whose places problems name, and how many there can be.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::io;
use std::path::{Path, PathBuf};

use crate::file::{ReadFiles, read};
use crate::machine::{MAX_BYTES, Machine};
use crate::model::{Address, Config, Target};

/// A machine with some files.
#[derive(Default)]
struct Files(BTreeMap<PathBuf, Vec<u8>>);

impl Files {
    fn of(files: &[(&str, &str)]) -> Self {
        let at = |name: &str| Path::new("/etc/handfast").join(name);
        Self(files.iter().map(|(name, text)| (at(name), text.as_bytes().to_vec())).collect())
    }
}

impl Machine for Files {
    fn is_folder(&self, path: &Path) -> bool {
        self.0.keys().any(|file| file != path && file.starts_with(path))
    }

    fn names_in(&self, folder: &Path) -> io::Result<Vec<OsString>> {
        let names = self.0.keys().filter(|file| file.parent() == Some(folder));
        // A folder has no order.
        Ok(names.rev().filter_map(|file| Some(file.file_name()?.to_owned())).collect())
    }

    fn read(&self, file: &Path, limit: u64) -> io::Result<Vec<u8>> {
        let bytes = self.0.get(file).ok_or(io::ErrorKind::NotFound)?;
        if bytes.len() as u64 > limit {
            return Err(io::Error::other(format!("has more than {limit} bytes")));
        }
        Ok(bytes.clone())
    }
}

/// A service at a port, after which a test adds lines to it.
fn service(name: &str, port: u16) -> String {
    format!(
        "[[service]]\nname = \"{name}\"\nlisten = \"127.0.0.1:{port}\"\nbackend = \"unix:app.sock\"\nclient-tls = false\n"
    )
}

fn reading(main: &str, files: &[(&str, &str)]) -> ReadFiles {
    read("/etc/handfast/handfast.toml", main, &Files::of(files))
}

fn good(main: &str, files: &[(&str, &str)]) -> Config {
    let (config, warnings) = reading(main, files).parsed.unwrap_or_else(|problems| panic!("{problems:#?}"));
    assert_eq!(warnings, []);
    config
}

/// The problems, each as one line.
fn problems(main: &str, files: &[(&str, &str)]) -> Vec<String> {
    let problems = reading(main, files).parsed.expect_err("something is wrong");
    problems.iter().map(|problem| problem.to_string().replace("/etc/handfast/", "")).collect()
}

const INCLUDE: &str = "include = \"conf.d/*.toml\"\n";

#[test]
fn services_of_included_files_follow_in_the_order_of_the_names() {
    let (a, b, main) = (service("a", 1), service("b", 2) + &service("b2", 3), service("main", 4));
    let files = [
        ("conf.d/b.toml", &*b),
        ("conf.d/a.toml", &a),
        ("conf.d/.hidden.toml", "wrong"),
        ("conf.d/README", "wrong"),
    ];
    let config = good(&format!("{INCLUDE}{main}"), &files);
    let names: Vec<_> = config.services.iter().map(|service| service.name.as_str()).collect();
    assert_eq!(names, ["main", "a", "b", "b2"]);
    let file = |name: &str| format!("/etc/handfast/{name}");
    let expected = ["handfast.toml", "conf.d/a.toml", "conf.d/b.toml", "conf.d/b.toml"].map(file);
    assert_eq!(config.service_files, expected);
    // Paths start from the folder of the file that they are in.
    let backends: Vec<_> = config.services.iter().map(|service| service.backends[0].target.clone()).collect();
    let socket = |path: &str| Target::Address(Address::Unix(path.into()));
    assert_eq!(backends[..2], [socket("/etc/handfast/app.sock"), socket("/etc/handfast/conf.d/app.sock")]);
    let only = good("include = [\"one.toml\", \"none/*.toml\"]", &[("one.toml", &a)]);
    assert_eq!((only.services.len(), only.service_files.len()), (1, 1));
    assert_eq!(good(&main, &[]).service_files, Vec::<String>::new());
}

#[test]
fn an_included_file_has_services_and_nothing_else() {
    let main = format!("{INCLUDE}{}", service("main", 1));
    let allowed = "allowed: [[service]], and what belongs to a service";
    for (text, expected) in [
        (
            "[limits]\nidle = \"1m\"",
            format!(
                "1:2: `limits` cannot be in an included file; {allowed}; hint: write it in handfast.toml"
            ),
        ),
        (
            "include = \"other.toml\"",
            format!(
                "1:1: an included file cannot include others; {allowed}; hint: include them in handfast.toml"
            ),
        ),
        (
            "[[servce]]\n[service.limits]",
            format!(
                "1:3: unknown key `servce` at the top of an included file; {allowed}; hint: did you mean `service`?"
            ),
        ),
        (
            "service = 1",
            "1:11: `service` is a section, not a whole number; hint: write [[service]]".to_owned(),
        ),
        (
            "[service]\nname = \"a\"",
            "1:1: there may be several of these, so each begins with [[service]]; hint: write [[service]]"
                .to_owned(),
        ),
    ] {
        let found = problems(&main, &[("conf.d/a.toml", text)]);
        assert!(found.contains(&format!("conf.d/a.toml:{expected}")), "{text}: {found:#?}");
    }
}

#[test]
fn problems_of_all_files_are_found_at_once_each_with_its_file_and_line() {
    let main = format!("{INCLUDE}[process]\nthreads = 0\n{}", service("web", 1));
    let a = format!("# a comment\n{}wrong = 1\n[[service]\nname = \"x\"\n", service("web", 2));
    let b = format!("{}[service.limits]\nidle = 10s\n", service("b", 1));
    let mut found = problems(&main, &[("conf.d/a.toml", &a), ("conf.d/b.toml", &b)]);
    found[2].truncate("conf.d/a.toml:7:1: unknown key `wrong` in [[service]]".len());
    assert_eq!(
        found,
        [
            "handfast.toml:3:11: 0 is out of range; allowed: 1 to 1024",
            "conf.d/a.toml:3:8: two services are called `web`; the first one: handfast.toml:5:8; hint: metrics and logs need different names",
            "conf.d/a.toml:7:1: unknown key `wrong` in [[service]]",
            "conf.d/a.toml:8:11: this header of a section is not right; hint: write `[[service]]`",
            "conf.d/b.toml:3:10: this address is listened on twice; first here: handfast.toml:6:10",
            "conf.d/b.toml:7:8: `10s` is not a value; hint: put texts, durations, sizes and addresses in quotes: `\"10s\"`",
        ]
    );
}

#[test]
fn an_include_that_cannot_be_followed_says_why() {
    let (a, pem) = (service("a", 1), "-----BEGIN PRIVATE KEY-----\nMIIhidden\n");
    let large = "#".repeat(MAX_BYTES as usize + 1);
    let half = "#".repeat(MAX_BYTES as usize / 2 + 1);
    let files = [
        ("a.toml", &*a),
        ("key.toml", pem),
        ("large.toml", &large),
        ("half1.toml", &half),
        ("half2.toml", &half),
    ];
    for (include, expected) in [
        (
            "\"none.toml\"",
            "the file `none.toml` does not exist; hint: only a pattern, such as `conf.d/*.toml`, needs no file",
        ),
        (
            "\"hand*.toml\"",
            "`handfast.toml` is this file, and a file cannot include itself; hint: keep included files in a separate folder, as in `conf.d/*.toml`",
        ),
        ("[\"a.toml\", \"[a].toml\"]", "`a.toml` is included twice"),
        (
            "\"*/a.toml\"",
            "`*/a.toml` has a wildcard in the name of a folder; allowed: wildcards after the last `/` only; hint: name the files of each folder, as in `conf.d/*.toml`",
        ),
        ("\"a[.toml\"", "`a[.toml` cannot be read as a pattern: unclosed character class; missing ']'"),
        (
            "\"key.toml\"",
            "the included file `key.toml`: line 1: a certificate or key begins here (PEM), which is no part of a configuration; hint: keep it in a separate file, and write the path of that file, as in `certificate = \"web.pem\"`",
        ),
        ("\"large.toml\"", "read the included file `large.toml`: has more than 16777216 bytes"),
        ("[\"half1.toml\", \"half2.toml\"]", "the included files have more than 16 MiB"),
        ("\"\"", "the path is empty"),
        ("[]", "the list is empty; allowed: wildcards after the last `/` only"),
        ("1", "expected a path of a file, or a pattern such as `\"conf.d/*.toml\"`, found a whole number"),
    ] {
        let mut all = files.to_vec();
        let main = format!("include = {include}\n{}", service("main", 2));
        all.push(("handfast.toml", &main));
        let found = problems(&main, &all);
        assert!(
            matches!(&found[..], [one] if one.starts_with("handfast.toml:1:") && one.ends_with(&format!(": {expected}"))),
            "{include}: {found:#?}"
        );
    }
    let many: Vec<_> = (0..1001).map(|number| (format!("conf.d/{number:04}.toml"), "# empty")).collect();
    let many: Vec<_> = many.iter().map(|(name, text)| (name.as_str(), *text)).collect();
    let main = format!("{INCLUDE}{}", service("main", 2));
    assert_eq!(problems(&main, &many), ["handfast.toml:1:11: more than 1000 files are included"]);
    good(&main, &many[..1000]);
}

#[test]
fn an_included_file_for_another_program_is_one_problem() {
    let main = format!("{INCLUDE}{}", service("main", 1));
    let nginx = "server {\n  listen 443;\n  server_name a;\n  proxy_pass http://x;\n}\n";
    let mut machine = Files::of(&[("conf.d/a.toml", nginx), ("conf.d/b.toml", "wrong = 1\n[[service]]\n")]);
    let found = read("/etc/handfast/handfast.toml", &main, &machine).parsed.expect_err("it is wrong");
    let found: Vec<_> = found.iter().map(|problem| problem.to_string()).collect();
    let is_nginx = |line: &&String| line.contains("a.toml:1:1: this is a configuration for nginx");
    assert_eq!(found.iter().filter(|line| line.contains("a.toml")).filter(is_nginx).count(), 1, "{found:#?}");
    assert!(found.iter().any(|line| line.contains("b.toml:1:1: unknown key `wrong`")), "{found:#?}");
    let latin = b"# caf\xe9\n".to_vec();
    machine.0.insert("/etc/handfast/conf.d/a.toml".into(), latin);
    let found = read("/etc/handfast/handfast.toml", &main, &machine).parsed.expect_err("it is wrong");
    let line = found.iter().map(|problem| problem.to_string()).find(|line| line.contains("a.toml"));
    let expected = "/etc/handfast/handfast.toml:1:11: the included file `/etc/handfast/conf.d/a.toml`: line 1 is not UTF-8 text";
    assert_eq!(line.as_deref(), Some(expected));
}

#[test]
fn secrets_of_an_included_file_are_in_no_message() {
    let text = format!("{}password = \"hunter2hunter2\"\nbalance = \"hunter2hunter2\"\n", service("a", 2));
    let found = problems(&format!("{INCLUDE}{}", service("main", 1)), &[("conf.d/a.toml", &text)]);
    assert!(found.iter().all(|line| !line.contains("unknown key `hunter2")), "{found:#?}");
    assert!(
        found.iter().any(|line| line.contains("conf.d/a.toml:6:1: unknown key `password`")),
        "{found:#?}"
    );
}
