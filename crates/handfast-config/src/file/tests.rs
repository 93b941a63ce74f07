//! Tests of reading a whole file: what is read, what is wrong with it and where, and that nothing makes it panic.

use std::path::PathBuf;
use std::time::Duration;

use proptest::prelude::*;

use super::super::kind::seconds;
use super::super::model::{AccessLog, Balance, UnknownName, name_fits};
use super::super::schema::Default;
use super::*;

/// A service that is right; what a test adds begins in line 6.
const WEB: &str = "[[service]]\nname = \"web\"\nlisten = \"127.0.0.1:8443\"\nbackend = \"10.0.0.9:80\"\ncertificate = \"site.pem\"\n";

const EXAMPLE: &str = include_str!("../../../../docs/reference/handfast.toml");

mod acme;
mod backends;
mod checks;
mod compression;
mod effects;
mod files;
mod http;
mod maintenance;
mod of_service;
mod towards_backends;
mod site;
mod variables;
mod wrong;

fn read(text: &str) -> Parsed {
    parse("/etc/handfast/handfast.toml", text, &|path| path.ends_with("certificates"))
}

fn good(text: &str) -> Config {
    let (config, warnings) = read(text).unwrap_or_else(|problems| panic!("{problems:#?}"));
    assert_eq!(warnings, [], "{text}");
    config
}

#[test]
fn the_smallest_file_has_the_defaults() {
    let config = good(WEB);
    assert_eq!(config.process.drain, seconds(30));
    assert_eq!(config.process.threads, None);
    assert_eq!(config.access_log, AccessLog::Stdout);
    assert_eq!(config.admin, Some(Address::Ip("127.0.0.1:7643".parse().unwrap())));
    let [service] = config.services.as_slice() else { panic!("{config:?}") };
    assert_eq!(service.limits.handshake, seconds(10));
    assert_eq!(service.limits.hello_bytes, 65_536);
    assert_eq!(service.limits.lifetime, Duration::ZERO);
    assert_eq!(service.limits.resolve, Duration::ZERO);
    assert_eq!(service.listen_mode, 0o660);
    assert_eq!(service.balance, Balance::RoundRobin);
    assert_eq!(service.tls.as_ref().expect("it has TLS").unknown_name, UnknownName::First);
    assert_eq!(service.tls.as_ref().expect("it has TLS").client_certificates, ClientCertificates::Off);
    assert_eq!(service.tls.as_ref().expect("it has TLS").tickets.per_handshake, 2);
    assert_eq!(service.tls.as_ref().expect("it has TLS").alpn, Vec::<String>::new());
}

#[test]
fn paths_start_from_the_folder_of_the_file() {
    let config = good(&format!(
        "{WEB}key = \"keys/site.key\"\nclient-certificates = {{ mode = \"require\", ca = \"/ca.pem\" }}\n"
    ));
    let tls = config.services[0].tls.as_ref().expect("it has TLS");
    let [CertificateEntry::File { certificate, key, ocsp: None }] = tls.certificates.as_slice() else {
        panic!("{tls:?}")
    };
    assert_eq!(certificate, &PathBuf::from("/etc/handfast/site.pem"));
    assert_eq!(key, &Some(PathBuf::from("/etc/handfast/keys/site.key")));
    let ClientCertificates::Require(checks) = &tls.client_certificates else { panic!("{tls:?}") };
    assert_eq!(checks.trust, handfast_tls::client_certificates::Trust::Authorities("/ca.pem".into()));
}

#[test]
fn certificates_are_files_folders_and_pairs() {
    let text = WEB.replace(
        "\"site.pem\"",
        "[\"a.pem\", \"certificates\", \"more/\", { certificate = \"b.pem\", key = \"b.key\" }, \
         { certificate = \"c.pem\", key = \"c.key\", ocsp = \"c.der\" }]",
    );
    let folder = PathBuf::from("/etc/handfast");
    let with = |name: &str, key: Option<&str>, ocsp: Option<&str>| CertificateEntry::File {
        certificate: folder.join(name),
        key: key.map(|key| folder.join(key)),
        ocsp: ocsp.map(|ocsp| folder.join(ocsp)),
    };
    let file = |name: &str, key: Option<&str>| with(name, key, None);
    let expected = [
        file("a.pem", None),
        CertificateEntry::Folder(folder.join("certificates")),
        CertificateEntry::Folder(folder.join("more/")),
        file("b.pem", Some("b.key")),
        with("c.pem", Some("c.key"), Some("c.der")),
    ];
    assert_eq!(good(&text).services[0].tls.as_ref().expect("it has TLS").certificates, expected);
}

#[test]
fn a_service_takes_limits_and_tickets_of_all_key_by_key() {
    let config = good(&format!(
        "[limits]\nidle = \"10m\"\nconnect = \"2s\"\n[tickets]\nrotate = \"1h\"\nkey-file = \"t.key\"\n{WEB}\
         [service.limits]\nidle = \"none\"\n[service.tickets]\nper-handshake = 1\n"
    ));
    let service = &config.services[0];
    assert_eq!((service.limits.idle, service.limits.connect), (Duration::ZERO, seconds(2)));
    assert_eq!(service.limits.handshake, seconds(10));
    let tickets = &service.tls.as_ref().expect("it has TLS").tickets;
    assert_eq!((tickets.per_handshake, tickets.rotate), (1, seconds(3600)));
    assert_eq!(tickets.key_source.file(), Some(Path::new("/etc/handfast/t.key")));
}

#[test]
fn a_file_that_services_inherit_is_named_once() {
    let two = format!("{WEB}{}", WEB.replace("\"web\"", "\"other\"").replace("8443", "8444"));
    let config = good(&format!("[tickets]\nkey-file = \"t.key\"\n{two}"));
    let named = config.places.paths().filter(|path| path.ends_with("t.key"));
    assert_eq!(named.count(), 1);
}

#[test]
fn rules_take_lists_of_the_service_unless_they_name_a_policy() {
    let config = good(&format!(
        "{WEB}groups = [\"X25519\"]\nversions = [\"1.3\"]\n[[service.rule]]\nnames = \"a.example\"\nsuites = [\"TLS_AES_128_GCM_SHA256\"]\n\
         [[service.rule]]\nnames = \"b.example\"\npolicy = \"2026-11-modern\"\n[[service.rule]]\nnames = \"c.example\"\n"
    ));
    let rules = &config.services[0].rules;
    let first = rules[0].policy.as_ref().expect("the first rule has a policy");
    assert_eq!(first.groups, Some(vec!["X25519".to_owned()]));
    assert_eq!(first.versions, Some(vec!["1.3".to_owned()]));
    assert_eq!(first.suites, Some(vec!["TLS_AES_128_GCM_SHA256".to_owned()]));
    let second = rules[1].policy.as_ref().expect("the second rule has a policy");
    assert_eq!((second.base.as_str(), &second.groups), ("2026-11-modern", &None));
    assert_eq!(rules[2].policy, None);
}

#[test]
fn a_wildcard_fits_exactly_one_label() {
    let config = good(&format!("{WEB}[[service.rule]]\nnames = [\"*.Example.org\", \"b.example\"]\n"));
    let rule = &config.services[0].rules[0];
    for (name, fits) in [
        ("a.example.org", true),
        ("b.example", true),
        ("example.org", false),
        ("a.b.example.org", false),
        ("aexample.org", false),
        ("", false),
    ] {
        assert_eq!(name_fits(&rule.names, name), fits, "{name}");
    }
}

#[test]
fn the_example_in_the_documents_is_right() {
    good(EXAMPLE);
}

#[test]
fn the_example_in_the_documents_has_every_section() {
    for section in keys::FILE.all().into_iter().filter(|section| !section.name.is_empty()) {
        let inline = format!("{} = {{", section.name);
        assert!(EXAMPLE.contains(section.header) || EXAMPLE.contains(&inline), "{}", section.header);
    }
}

fn write(path: &Path, bytes: &[u8]) {
    let mut file = std::fs::File::create(path).expect("a file");
    std::io::Write::write_all(&mut file, bytes).expect("written");
}

#[test]
fn a_file_that_is_not_there_or_no_text_is_named() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("handfast.toml");
    let problems = load(&path).parsed.expect_err("there is no file");
    assert!(
        problems[0]
            .to_string()
            .starts_with(&format!("{}: cannot read the file: No such file", path.display()))
    );

    write(&path, b"a = 1\nb = \"\xff\"\n");
    let problems = load(&path).parsed.expect_err("no UTF-8");
    assert!(problems[0].to_string().ends_with("line 2 is not UTF-8 text"), "{}", problems[0]);
}

#[test]
fn a_file_is_read_and_its_folders_are_seen() {
    let folder = tempfile::tempdir().expect("a folder");
    std::fs::create_dir(folder.path().join("site.pem")).expect("a folder with a misleading name");
    let path = folder.path().join("handfast.toml");
    write(&path, WEB.as_bytes());
    let (config, _) = load(&path).parsed.expect("a good file");
    assert_eq!(
        config.services[0].tls.as_ref().expect("it has TLS").certificates,
        [CertificateEntry::Folder(folder.path().join("site.pem"))]
    );
}

/// One change to the example: a part replaced by some text.
fn change() -> impl Strategy<Value = (prop::sample::Index, usize, String)> {
    let text = prop_oneof![
        "[\\[\\]{}=\",.#'\\\\ \n]{0,4}",
        "\\PC{0,8}",
        prop::sample::select(vec![
            "[[service]]",
            "[limits]",
            "\"\"\"",
            "0",
            "true",
            "1979-05-27",
            "inf",
            "{}",
            "\"é\""
        ])
        .prop_map(str::to_owned),
    ];
    (any::<prop::sample::Index>(), 0_usize..40, text)
}

proptest! {
    #[test]
    fn no_text_makes_it_panic(text in "\\PC*") {
        let _ = read(&text);
    }

    #[test]
    fn no_text_like_toml_makes_it_panic(text in "([a-z-]{1,8}|[=\"'\\[\\]{},.#\n]|[0-9]{1,3}| ){0,60}") {
        let _ = read(&text);
    }

    #[test]
    fn no_change_of_a_good_file_makes_it_panic(changes in prop::collection::vec(change(), 1..6)) {
        let mut text = EXAMPLE.to_owned();
        for (index, length, new) in changes {
            let start = text.floor_char_boundary(index.index(text.len()));
            let end = text.ceil_char_boundary((start + length).min(text.len()));
            text.replace_range(start..end, &new);
        }
        if let Err(problems) = read(&text) {
            prop_assert!(!problems.is_empty());
            prop_assert!(problems.iter().any(Problem::is_error));
            for problem in &problems {
                let Place::Text { span, line, text: there, .. } = &problem.place else { panic!("{problem:?}") };
                prop_assert_eq!(&text[span.clone()], there);
                prop_assert_eq!(*line, text[..span.start].matches('\n').count() + 1);
            }
            let rendered = super::super::render(&problems, &[("/etc/handfast/handfast.toml", &text)], false);
            prop_assert!(rendered.contains("error"));
        }
    }
}
