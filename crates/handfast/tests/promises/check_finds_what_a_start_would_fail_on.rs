//! `check` finds what `proxy` would then fail on: what one refuses, the other does not start with, and says the same thing.

use std::path::Path;
use std::process::Command;

use super::support::certificates::{Authority, localhost};
use super::support::folder::Folder;
use super::support::proxy::PROGRAM;
use super::support::skip::needs;
use super::support::tools;
use super::support::*;

/// The exit code, and what was said on standard error.
fn run(verb: &str, folder: &Folder, config: &Config) -> (Option<i32>, String) {
    let file = folder.write("handfast.toml", config.to_string());
    // A proxy that started after all would stay.
    let mut command = Command::new("timeout");
    let output = command.args(["20", PROGRAM, verb, "-c"]).arg(&file).current_dir(folder.path()).output();
    let output = output.unwrap_or_else(|error| panic!("{verb}: {error}"));
    let text = [output.stdout, output.stderr].concat();
    (output.status.code(), String::from_utf8_lossy(&text).into_owned())
}

#[test]
fn whatever_is_missing_or_closed_on_this_machine() {
    let folder = Folder::new();
    std::fs::create_dir(folder.file("in-the-way")).expect("the folder is ours");
    let config = Config::to(&folder, "127.0.0.1:1");
    let log = |path: &str| config.clone().text("access-log", "to", path);
    let listen = |address: &str| config.clone().text("service", "listen", address);
    let mut cases = vec![
        ("a log without a folder", log("none/access.log"), "none/access.log"),
        ("a log that is a folder", log("./in-the-way"), "in-the-way"),
        (
            "a ticket file without a folder",
            config.clone().text("tickets", "key-file", "none/tickets.key"),
            "none",
        ),
        ("a socket without a folder", listen("unix:none/web.sock"), "none/web.sock"),
        ("a socket in a file's place", listen("unix:handfast.toml"), "handfast.toml"),
        (
            "an admin socket without a folder",
            config.clone().text("admin", "listen", "unix:none/admin.sock"),
            "none",
        ),
        ("an address of another machine", listen("192.0.2.1:0"), "192.0.2.1"),
        (
            "more connections than files",
            config.clone().set("process", "max-connections", 9_999_999),
            "open files",
        ),
        ("a user that is not there", config.clone().text("process", "user", "no-such-user"), "no-such-user"),
    ];
    if rustix::process::geteuid().is_root() {
        // The temporary folder is its owner's alone.
        cases.push((
            "a log the user cannot write",
            log("./access.log").text("process", "user", "nobody"),
            "access.log",
        ));
    } else {
        cases.push((
            "a user without being root",
            config.clone().text("process", "user", "nobody"),
            "only root",
        ));
    }
    crowd::for_each(cases.len(), 2, |number| {
        let (what, config, names) = &cases[number];
        let own = Folder::new();
        std::fs::create_dir(own.file("in-the-way")).expect("the folder is ours");
        let (code, output) = run("check", &own, config);
        assert_eq!(code, Some(2), "{what}: {output}");
        assert!(output.contains("error: ") && output.contains(names), "{what}: {output}");
        let (code, output) = run("proxy", &own, config);
        assert!(matches!(code, Some(1 | 2)), "{what}: a start fails too: {code:?} {output}");
        assert!(output.contains(names), "{what}: {output}");
    });
}

/// A protection without effect is worse than none: the operator relies on it.
#[test]
fn a_protection_without_effect_is_an_error() {
    let folder = Folder::new();
    let ca = folder.write("ca.pem", &certificates::authority().pem);
    let config = Config::empty().service("web", "127.0.0.1:1").set("service", "pass-through", true);
    let (code, output) = run("check", &folder, &config);
    assert_eq!(code, Some(0), "{output}");
    let required = format!("{{ mode = \"require\", ca = {ca:?} }}");
    for verb in ["check", "proxy"] {
        let config = config.clone().set("service", "client-certificates", &required);
        let (code, output) = run(verb, &folder, &config);
        assert_eq!(code, Some(2), "{output}");
        let why = "`client-certificates` has no effect: the TLS of clients is passed through (`pass-through = true`)";
        assert!(output.contains(why), "{output}");
    }
}

#[test]
fn a_name_that_cannot_be_resolved_is_a_warning_with_the_cause() {
    let folder = Folder::new();
    let (code, output) = run("check", &folder, &Config::to(&folder, "no-such-name.invalid:80"));
    assert_eq!(code, Some(0), "a start serves without it: {output}");
    assert!(output.contains("warning: resolve no-such-name.invalid (service web): "), "{output}");
}

#[test]
fn a_user_that_is_not_there_is_reported_with_everything_else() {
    let folder = Folder::new();
    let config = Config::to(&folder, "127.0.0.1:1").text("process", "user", "no-such-user");
    for (what, more, expected) in [
        ("the machine", config.clone().text("access-log", "to", "none/access.log"), "none/access.log"),
        ("a file", config.clone().certificate(&folder.file("gone.pem")), "gone.pem"),
        ("the configuration", config.clone().set("process", "thraeds", 2), "unknown key `thraeds`"),
    ] {
        let (code, output) = run("check", &folder, &more);
        assert_eq!(code, Some(2), "{what}: {output}");
        for expected in [expected, "process.user: there is no user no-such-user on this machine"] {
            assert!(output.contains(expected), "{what}: {expected}: {output}");
        }
    }
}

#[test]
fn a_running_proxy_is_checked_without_a_word_about_its_addresses() {
    let stage = Stage::echo();
    let config = stage.config().text("service", "listen", stage.proxy.address());
    let folder = Folder::new();
    let (code, output) = run("check", &folder, &config.clone().text("admin", "listen", stage.proxy.admin()));
    assert_eq!(code, Some(0), "{output}");
    assert!(!output.contains("warning"), "{output}");
    // Another process has it, as far as this can be seen.
    let (code, output) = run("check", &folder, &config.text("admin", "listen", "off"));
    assert_eq!(code, Some(0), "{output}");
    assert!(output.contains("another program listens there"), "{output}");
    stage.serves_and_is_quiet();
}

/// A PEM text with one bit of the last line changed, which is the signature's.
fn damaged(pem: &str) -> String {
    let (head, end) = pem.trim_end().rsplit_once('\n').expect("an END line");
    let (head, last) = head.rsplit_once('\n').expect("more lines");
    let changed = if last.starts_with('A') { 'B' } else { 'A' };
    format!("{head}\n{changed}{}\n{end}\n", &last[1..])
}

#[test]
fn a_chain_whose_signatures_are_wrong() {
    let folder = Folder::new();
    let leaf = localhost();
    // Of the same name, and another key.
    let other = Authority::new("Handfast tests");
    let whole = leaf.combined() + &authority().pem;
    for (chain, is_good) in [
        (whole.clone(), true),
        (whole.replace(&leaf.certificate_pem, &damaged(&leaf.certificate_pem)), false),
        (leaf.combined() + &other.pem, false),
    ] {
        let config =
            Config::empty().service("web", "127.0.0.1:1").certificate(&folder.write("web.pem", chain));
        let (code, output) = run("check", &folder, &config);
        if is_good {
            assert_eq!(code, Some(0), "{output}");
            continue;
        }
        let words = "is not by the certificate of \"CN=Handfast tests\" that is with it: clients refuse it";
        for (code, output) in [(code, output), run("proxy", &folder, &config)] {
            assert_eq!(code, Some(2), "{output}");
            assert!(
                output.contains("web.pem: the signature of the certificate of ") && output.contains(words),
                "{output}"
            );
        }
    }
}

/// Every key of a path that a start makes, writes or watches, relative to the folder of a file that is named without one.
#[test]
fn a_file_of_the_present_folder_is_named_with_or_without_the_folder() {
    let folder = Folder::new();
    folder.write("web.pem", localhost().combined());
    folder.write("users", "");
    let config = Config::empty()
        .text("admin", "listen", "unix:admin.sock")
        .text("access-log", "to", "./access.log")
        .text("acme", "contact", "a@example.org")
        .set("acme", "accept-terms-of-service", true)
        .text("acme", "folder", "acme")
        .service("web", "127.0.0.1:1")
        .certificate(Path::new("web.pem"))
        .text("service.tickets", "key-file", "tickets.keys")
        .text("service", "mode", "http")
        .text("service.cache", "folder", "cache")
        .text("service.cache", "size", "64MiB")
        .service("ordered", "127.0.0.1:1")
        .certificate(Path::new("acme"))
        .text("service", "acme-names", "a.example.org");
    folder.write("site.toml", config.to_string());
    let check = |words: &str| {
        let script = format!("cd {} && exec {PROGRAM} check {words}", folder.path().display());
        tools::run("sh", &["-c", &script], b"")
    };
    for name in ["site.toml", "./site.toml"] {
        let ran = check(&format!("-c {name}"));
        assert_eq!((ran.code, ran.output.trim()), (Some(0), &*format!("{name}: good")), "{}", ran.all());
    }
    let ran = check("site.toml");
    assert!(
        ran.code == Some(2) && ran.talk.contains("tip: a configuration is named by `-c site.toml`"),
        "{}",
        ran.all()
    );
}

/// A PEM file as programs, editors and mails make it is read, or its reason and cure are named.
#[test]
fn a_certificate_file_of_another_form_is_read_or_its_reason_is_named() {
    let identity = localhost();
    let good = identity.combined();
    let all = |from: &str, to: &str| good.replace(from, to);
    let indented = |blanks: &str| good.lines().map(|line| format!("{blanks}{line}\n")).collect::<String>();
    let rows: [(&str, String, &[&str]); 12] = [
        ("X509 CERTIFICATE", all("CERTIFICATE", "X509 CERTIFICATE"), &[]),
        ("X.509 CERTIFICATE", all("CERTIFICATE", "X.509 CERTIFICATE"), &[]),
        ("lines of other systems", all("\n", "\r\n"), &[]),
        ("a byte order mark", format!("\u{feff}{good}"), &[]),
        ("blanks behind", all("\n", "  \n"), &[]),
        ("text around", format!("Bag Attributes\n  x: y\n{good}\nend\n"), &[]),
        (
            "TRUSTED CERTIFICATE",
            all("CERTIFICATE", "TRUSTED CERTIFICATE"),
            &["error: ", "line 1: TRUSTED CERTIFICATE is OpenSSL's own form", "hint: openssl x509 -in "],
        ),
        (
            "a request",
            all("CERTIFICATE", "CERTIFICATE REQUEST"),
            &["line 1: CERTIFICATE REQUEST is not used, expected CERTIFICATE"],
        ),
        ("PKCS7", all("CERTIFICATE", "PKCS7"), &["line 1: PKCS7 is not used", "hint: openssl pkcs7 -in "]),
        (
            "indented by blanks",
            indented("    "),
            &["line 1: a BEGIN line that is indented", "hint: remove the blanks"],
        ),
        ("indented by tabs", indented("\t"), &["line 1: a BEGIN line that is indented"]),
        (
            "on one line",
            all("\n", " "),
            &["line 1: BEGIN and END in one line", "hint: its line breaks were lost"],
        ),
    ];
    for (what, text, messages) in rows {
        let folder = Folder::new();
        let file = folder.write("web.pem", &text);
        let authorities = folder.write("ca.pem", text.split("-----BEGIN PRIV").next().unwrap_or_default());
        let config = Config::empty().service("web", "127.0.0.1:1").certificate(&file).text(
            "service.backend-tls",
            "ca",
            authorities.display(),
        );
        let (code, output) = run("check", &folder, &config);
        assert_eq!(code, Some(if messages.is_empty() { 0 } else { 2 }), "{what}: {output}");
        for message in messages {
            assert!(output.contains(message), "{what}: {message}: {output}");
        }
        assert!(
            !output.contains("joined without") && !output.contains("holds no certificate"),
            "{what}: {output}"
        );
    }
}

/// RFC 7633: clients refuse such a certificate without a response, which no other check would show.
#[test]
fn a_certificate_that_demands_a_response_and_has_none() {
    needs!("openssl");
    let folder = Folder::new();
    let path = |name: &str| folder.file(name).display().to_string();
    tools::self_signed(
        "localhost",
        &path("key.pem"),
        &path("web.pem"),
        &["-addext", "tlsfeature=status_request"],
    );
    let config = Config::empty().service("web", "127.0.0.1:1").certificate(&folder.file("web.pem")).text(
        "service",
        "key",
        path("key.pem"),
    );
    let demand = "demands a stapled OCSP response (must-staple), and there is none";
    let (code, output) = run("check", &folder, &config);
    assert!(code == Some(0) && output.contains("warning: ") && output.contains(demand), "{output}");
    let proxy = Proxy::start(config);
    proxy.talk.containing(demand);
    let probe = tools::handfast(&["probe", &proxy.address().to_string(), "-n", "1"]);
    assert!(
        probe.output.contains("demands an OCSP response (must-staple), and none came"),
        "{}",
        probe.all()
    );
}
