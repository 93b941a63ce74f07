//! `[acme]` and `certificate = "acme"`: the names that are ordered, and what contradicts.

use super::*;
use crate::model::{AcmeChallenge, AcmeIssuer};

const APART: &str = "[process]\nprivate-keys = \"separate-process\"\n";
const ACCEPTED: &str = "[acme]\naccept-terms-of-service = true\nfolder = \"store\"\n";

fn service(lines: &str) -> String {
    format!("[[service]]\nname = \"web\"\nlisten = \"127.0.0.1:8443\"\nbackend = \"10.0.0.9:80\"\n{lines}")
}

fn good(text: &str) -> Config {
    parse("/etc/handfast.toml", text, &|_| false).unwrap_or_else(|problems| panic!("{problems:#?}")).0
}

fn problems(text: &str) -> String {
    let problems = parse("/etc/handfast.toml", text, &|_| false).expect_err("it is wrong");
    problems.iter().map(|problem| format!("{}\n{:?}\n", problem.what, problem.hint)).collect()
}

fn names(config: &Config) -> Vec<&str> {
    let certificates =
        config.services.iter().flat_map(|service| &service.tls).flat_map(|tls| &tls.certificates);
    certificates
        .filter_map(|entry| match entry {
            CertificateEntry::Acme { folder, names, .. } => {
                assert_eq!(folder, Path::new("/etc/store/certificates"));
                Some(names.iter().map(String::as_str))
            }
            _ => None,
        })
        .flatten()
        .collect()
}

#[test]
fn names_come_from_the_service_its_rules_and_its_routes() {
    let config = good(&format!(
        "{ACCEPTED}{}",
        service(
            "mode = \"http\"\ncertificate = \"acme\"\nacme-names = [\"A.example.org\", \"2001:DB8::1\"]\n\
             [[service.rule]]\nnames = [\"b.example.org\", \"a.example.org\"]\npolicy = \"2026-11-modern\"\n\
             [[service.route]]\nhosts = [\"c.example.org\", \"192.0.2.1\"]\nbackend = \"10.0.0.7:80\"\n"
        )
    ));
    assert_eq!(
        names(&config),
        ["a.example.org", "2001:db8::1", "b.example.org", "c.example.org", "192.0.2.1"]
    );
    let acme = config.acme.expect("it is there");
    assert_eq!(acme.challenges, [AcmeChallenge::TlsAlpn01, AcmeChallenge::Http01]);
    let [AcmeIssuer { directory, staging, .. }] = &acme.issuers[..] else { panic!("one issuer") };
    assert!(directory.contains("acme-v02.api.letsencrypt.org"));
    assert!(staging.as_ref().is_some_and(|staging| staging.contains("staging")), "of the same issuer");
}

#[test]
fn a_wildcard_needs_dns_and_saves_the_names_below_it() {
    let wild = service(
        "certificate = \"acme\"\nacme-names = [\"*.example.org\", \"a.example.org\", \"example.org\"]\n",
    );
    let without = problems(&format!("{ACCEPTED}{wild}"));
    assert!(without.contains("`*.example.org`") && without.contains("dns-persist-01"), "{without}");
    let config = good(&format!(
        "{ACCEPTED}challenges = [\"dns-persist-01\", \"tls-alpn-01\"]\nissuer-name = \"letsencrypt.org\"\n{wild}"
    ));
    assert_eq!(names(&config), ["*.example.org", "example.org"]);
    let address = service("certificate = \"acme\"\nacme-names = \"192.0.2.1\"\n");
    let by_dns = problems(&format!("{ACCEPTED}challenges = \"dns-persist-01\"\n{address}"));
    assert!(by_dns.contains("`192.0.2.1` cannot be ordered"), "{by_dns}");
}

#[test]
fn what_is_passed_through_needs_no_certificate() {
    let config = good(&format!(
        "{ACCEPTED}{}",
        service(
            "certificate = \"acme\"\nacme-names = \"a.example.org\"\n[[service.rule]]\nnames = \"b.example.org\"\npass-through = true\n"
        )
    ));
    assert_eq!(names(&config), ["a.example.org"]);
}

#[test]
fn every_contradiction_is_named() {
    let ordered = service("certificate = \"acme\"\nacme-names = \"a.example.org\"\n");
    let nameless = service("certificate = \"acme\"\n");
    let folder = "folder = \"store\"\n";
    for (text, expected) in [
        (ordered.clone(), "needs [acme]"),
        (format!("[acme]\n{folder}{ordered}"), "accept the terms of service"),
        (
            format!("[acme]\n{folder}accept-terms-of-service = false\n{ordered}"),
            "accept the terms of service",
        ),
        (format!("[acme]\naccept-terms-of-service = true\n{ordered}"), "folder"),
        (format!("{ACCEPTED}{nameless}"), "no name is configured"),
        (format!("{ACCEPTED}{}", service("certificate = \"site.pem\"\n")), "`acme` has no effect"),
        (
            format!("{ACCEPTED}{}", service("certificate = \"site.pem\"\nacme-names = \"a.example.org\"\n")),
            "`acme-names` has no effect",
        ),
        (format!("{ACCEPTED}directory = \"http://ca.example/\"\n{ordered}"), "is not the URL of a directory"),
        (format!("{ACCEPTED}eab-key-id = \"kid\"\n{ordered}"), "needs `eab-key-file`"),
        (format!("{ACCEPTED}eab-key-file = \"key\"\n{ordered}"), "needs `eab-key-id`"),
        (format!("{ACCEPTED}contact = \"mailto:a@example.org\"\n{ordered}"), "is not a mail address"),
        (format!("{ACCEPTED}challenges = \"dns-01\"\n{ordered}"), "needs `dns-command`"),
        (format!("{ACCEPTED}dns-command = \"/bin/dns\"\n{ordered}"), "`dns-command` has no effect"),
        (format!("{ACCEPTED}challenges = \"dns-02\"\n{ordered}"), "is not one of the possible values"),
        (
            format!(
                "{ACCEPTED}challenges = \"dns-persist-01\"\ndirectory = \"https://ca.example/d\"\n{ordered}"
            ),
            "issuer-name",
        ),
        (
            format!(
                "{ACCEPTED}[[acme.fallback]]\ndirectory = \"https://acme-v02.api.letsencrypt.org/directory\"\n{ordered}"
            ),
            "asked already",
        ),
        (format!("{APART}{ACCEPTED}{ordered}"), "needs `key-folder`"),
        (format!("{ACCEPTED}key-folder = \"keys\"\n{ordered}"), "`key-folder` has no effect"),
        (format!("{APART}{ACCEPTED}key-folder = \"store/keys\"\n{ordered}"), "one in the other"),
        (
            format!(
                "{ACCEPTED}{}",
                service("certificate = \"acme\"\nkey = \"a.key\"\nacme-names = \"a.example.org\"\n")
            ),
            "`key` cannot go with `acme`",
        ),
    ] {
        let found = problems(&text);
        assert!(found.contains(expected), "{text}\n{found}");
    }
}
