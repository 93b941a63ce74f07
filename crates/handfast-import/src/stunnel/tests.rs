//! Tests beyond the table's examples: several services, defaults, included folders, and invalid files.

#![expect(clippy::disallowed_methods, reason = "no other process reads these files")]

use super::*;

fn import(file: &Path, folder: &Path) -> Result<Imported, ImportError> {
    super::import(file, &crate::imported::read_bytes(file)?, folder)
}

fn imported(text: &str) -> Result<Imported, ImportError> {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("stunnel.conf");
    std::fs::write(&file, text).expect("written");
    import(&file, Path::new(""))
}

fn good(text: &str) -> Imported {
    imported(text).unwrap_or_else(|error| panic!("{error}"))
}

fn problems(text: &str) -> String {
    imported(text).expect_err("it is wrong").to_string()
}

const WEB: &str = "[web]\naccept = 443\nconnect = 80\ncert = web.pem\n";

#[test]
fn settings_before_the_first_service_count_for_all() {
    let text = format!("; for all\nTIMEOUTidle = 60\nsessionResume = no\n{WEB}TIMEOUTidle = 120\n");
    let config = good(&text).config;
    assert!(config.contains("idle = \"2m\""), "its own comes first: {config}");
    assert!(config.contains("per-handshake = 0"), "{config}");
    // Repeated ones add up.
    let imported = good(&format!("options = NO_TLSv1.3\n{WEB}options = NO_TICKET\n"));
    assert!(imported.config.contains("versions = [\"1.2\"]"), "{}", imported.config);
    // stunnel resumes such sessions from its cache, so they are resumed here too.
    assert!(!imported.config.contains("per-handshake") && !imported.is_exact(), "{imported:?}");
}

#[test]
fn a_port_alone_is_all_of_ipv4_and_localhost() {
    let config = good(WEB).config;
    assert!(config.contains("listen = [\"0.0.0.0:443\"]"), "{config}");
    assert!(config.contains("backend = [\"localhost:80\"]"), "{config}");
}

#[test]
fn folders_are_included_in_the_order_of_names() {
    let folder = tempfile::tempdir().expect("a folder");
    let write = |name: &str, text: &str| std::fs::write(folder.path().join(name), text).expect("written");
    std::fs::create_dir(folder.path().join("conf.d")).expect("made");
    write("conf.d/20-b.conf", "[b]\naccept = 2\nconnect = 22\ncert = b.pem\n");
    write("conf.d/10-a.conf", "[a]\naccept = 1\nconnect = 11\ncert = a.pem\n");
    write("stunnel.conf", "include = conf.d\n");
    let config = import(&folder.path().join("stunnel.conf"), folder.path()).expect("good").config;
    let (a, b) = (config.find("name = \"a\""), config.find("name = \"b\""));
    assert!(a.is_some() && a < b, "{config}");
    write("stunnel.conf", "include = nowhere\n");
    let error = import(&folder.path().join("stunnel.conf"), folder.path()).expect_err("no such folder");
    assert!(error.to_string().contains("nowhere"), "{error}");
    // One that includes itself ends.
    write("conf.d/10-a.conf", "include = conf.d\n");
    write("stunnel.conf", "include = conf.d\n");
    let error = import(&folder.path().join("stunnel.conf"), folder.path()).expect_err("without end");
    assert!(error.to_string().contains("folders deep"), "{error}");
}

#[test]
fn all_errors_are_reported_at_once_with_their_lines() {
    let reported = problems("aceppt = 443\nnonsense\n[web]\nCAFiel = x\n");
    for part in [":1: aceppt: stunnel 5 has no such option", "accept", ":2: expected", ":4: CAFiel", "CAfile"]
    {
        assert!(reported.contains(part), "{part}: {reported}");
    }
}

#[test]
fn a_service_that_cannot_be_kept_is_left_out_and_the_others_stay() {
    let imported = good(&format!("{WEB}[psk]\naccept = 1\nconnect = 2\ncert = a.pem\nPSKsecrets = x\n"));
    assert!(!imported.is_whole());
    assert!(imported.config.contains("name = \"web\"") && !imported.config.contains("name = \"psk\""));
    assert!(imported.config.contains("# The service [psk] is not here"), "{}", imported.config);
    let note = imported.notes.iter().find(|note| note.fate == Fate::Refused).expect("a word about it");
    assert!(note.to_string().contains(":9: PSKsecrets: refused"), "{note}");
}

#[test]
fn exceptions_by_name_belong_to_their_primary() {
    let other =
        "[other]\nsni = web:other.test\nsni = web:*.other.test\nconnect = 81\ncert = o.pem\nkey = o.key\n";
    let Imported { config, notes, .. } = good(&format!("{WEB}{other}"));
    assert!(
        notes.iter().any(|note| note
            .to_string()
            .contains(":7: sni = web:*.other.test: approximated: * matches one part")),
        "{notes:?}"
    );
    let imported = good(&format!("{WEB}[other]\nsni = web:*x.test\nconnect = 81\ncert = o.pem\n"));
    assert!(!imported.is_whole(), "a pattern that no rule can have: {}", imported.config);
    let imported = good(&format!("{WEB}[other]\nsni = web:*\nconnect = 81\ncert = o.pem\n"));
    assert!(imported.config.contains("names = [\"*\"]") && imported.is_whole(), "{}", imported.config);
    assert!(
        imported.notes.iter().any(|note| note.effect.contains("every name that no other")),
        "{:?}",
        imported.notes
    );
    for line in [
        "certificate = [\"web.pem\", { certificate = \"o.pem\", key = \"o.key\" }]",
        "[[service.rule]]\nnames = [\"other.test\", \"*.other.test\"]\nbackend = [\"localhost:81\"]",
    ] {
        assert!(config.contains(line), "{line}\n{config}");
    }
    // In front of it, or without it, no connection would come here.
    let imported = good(&format!("{other}{WEB}"));
    assert!(!imported.is_whole() && !imported.config.contains("rule"), "{}", imported.config);
}

#[test]
fn sections_of_one_name_are_services_of_two() {
    let Imported { config, notes, .. } = good(&format!(
        "{WEB}{}[web-2]\naccept = 9\nconnect = 80\ncert = web.pem\n",
        WEB.replace("443", "444")
    ));
    let names: Vec<_> = config.lines().filter(|line| line.starts_with("name = ")).collect();
    assert_eq!(names, ["name = \"web\"", "name = \"web-2\"", "name = \"web-2-2\""], "{config}");
    let reported: Vec<_> = notes.iter().filter(|note| note.effect.contains("another service")).collect();
    assert_eq!(reported.len(), 2, "{notes:?}");
}

#[test]
fn a_file_without_sections_is_for_inetd() {
    let imported = good("client = yes\nservice = mail\nconnect = 2\n");
    let expected = "name = \"mail\"\nonly-client = \"stdin\"\nbackend = [\"localhost:2\"]";
    assert!(imported.is_whole() && imported.config.contains(expected), "{}", imported.config);
    let imported = good("client = yes\naccept = 1\nconnect = 2\n");
    assert!(imported.notes[0].effect.contains("inetd"), "{:?}", imported.notes);
    assert!(!imported.is_whole());
}

#[test]
fn programs_are_backends_or_clients() {
    let serves = "[web]\naccept = 1\ncert = a.pem\nexec = /bin/sh\nexecArgs = sh  -x\tscript\n";
    let imported = good(serves);
    assert!(imported.is_whole(), "{:?}", imported.notes);
    assert!(
        imported.config.contains("backend = [{ program = [\"/bin/sh\", \"-x\", \"script\"] }]"),
        "{}",
        imported.config
    );
    let text = "[out]\nclient = yes\nconnect = 2\nexec = /bin/sh\nretry = yes\n";
    let imported = good(text);
    assert!(
        imported.config.contains("only-client = { program = [\"/bin/sh\"], again = true }"),
        "{}",
        imported.config
    );
    let retries =
        |retry: &str| good(&format!("[out]\nclient = yes\nconnect = 2\nexec = /bin/sh\nretry = {retry}\n"));
    for (retry, again) in
        [("10", ", again = \"10ms\""), ("1000", ", again = \"1s\""), ("no", ""), ("0", ", again = \"1ms\"")]
    {
        let imported = retries(retry);
        let expected = format!("only-client = {{ program = [\"/bin/sh\"]{again} }}");
        assert!(imported.config.contains(&expected), "{retry}: {}", imported.config);
        let has_note = imported.notes.iter().any(|note| note.option.starts_with("retry"));
        assert_eq!(has_note, retry == "0", "{:?}", imported.notes);
    }
    assert!(!retries("soon").is_whole());
    // A service has two ends; a terminal is none that there is.
    for more in ["connect = 2\n", "pty = yes\n"] {
        assert!(!good(&format!("{serves}{more}")).is_whole(), "{more}");
    }
    assert!(!good("[out]\nclient = yes\nconnect = 2\n").is_whole());
}

#[test]
fn a_client_that_verified_nothing_still_does_not_with_a_note() {
    let imported = good("[out]\nclient = yes\naccept = 1\nconnect = a.example:2\n");
    assert!(imported.config.contains("verify = \"insecure-nothing\""), "{}", imported.config);
    assert!(
        imported.is_exact() && imported.notes[0].effect.contains("nothing is verified"),
        "{:?}",
        imported.notes
    );
    // By the machine's own list and a name it is as safe as ours by default.
    let safe = "verifyChain = yes\nCApath = /etc/ssl/certs\ncheckHost = a.example\n";
    let imported = good(&format!("[out]\nclient = yes\naccept = 1\nconnect = a.example:2\n{safe}"));
    assert!(!imported.config.contains("verify"), "{}", imported.config);
    let [staples, names] = imported.notes.as_slice() else { panic!("{:?}", imported.notes) };
    assert!(staples.effect.contains("OCSP response that the backend sends"), "{staples:?}");
    assert!(names.effect.contains("DNS names alone count"), "{names:?}");
}

#[test]
fn a_backends_name_and_revocation_are_checked_as_before_with_a_note() {
    let with = |more: &str| {
        good(&format!("[out]\nclient = yes\naccept = 1\nconnect = a.example:2\nverifyChain = yes\nCAfile = ca.pem\n{more}")).config
    };
    assert!(with("checkHost = a.example\n").contains("verify = \"insecure-common-name\""));
    let by_address = with("checkIP = 192.0.2.1\n");
    assert!(by_address.contains("name = \"192.0.2.1\"") && !by_address.contains("verify"), "{by_address}");
    assert!(with("OCSP = http://ocsp.example/\n").contains("revocation = \"stapled\""));
    assert!(with("OCSPaia = yes\nOCSPrequire = yes\n").contains("revocation = \"staple-required\""));
    // Since stunnel 5.71 without any option.
    for more in ["", "OCSPaia = no\nOCSPrequire = yes\n"] {
        assert!(with(more).contains("revocation = \"stapled\""), "{more}");
    }
    let unverified = good("[out]\nclient = yes\naccept = 1\nconnect = a.example:2\n").config;
    assert!(!unverified.contains("revocation"), "{unverified}");
    // No responder is queried for the revocation of client certificates.
    let clients = good(&format!("{WEB}verifyChain = yes\nCAfile = ca.pem\nOCSP = http://ocsp.example/\n"));
    assert!(!clients.is_whole(), "{clients:?}");
    // A pinned key has no list and no responder.
    let pinned = "[out]\nclient = yes\naccept = 1\nconnect = a.example:2\nverifyPeer = yes\nCAfile = ca.pem\nOCSPaia = yes\n";
    assert!(!good(pinned).is_whole());
}

#[test]
fn pkcs12_is_a_file_as_any_other() {
    let imported = good(&WEB.replace("web.pem", "web.p12"));
    assert!(imported.is_exact() && imported.config.contains("web.p12"), "{imported:?}");
    let client = good("[out]\nclient = yes\naccept = 1\nconnect = a.example:2\ncert = own.pfx\n");
    assert!(client.config.contains("certificate = \"own.pfx\""), "{}", client.config);
    assert!(!good(&WEB.replace("web.pem", "pkcs11:token=x")).is_whole(), "a key in a device");
}

#[test]
fn what_is_written_twice_is_once_in_the_result() {
    let config = good(&format!(
        "{WEB}accept = 444\naccept = 443\n[api]\nsni = web:api.example\nconnect = 81\ncert = web.pem\n"
    ));
    let config = config.config;
    assert!(config.contains("listen = [\"0.0.0.0:443\", \"0.0.0.0:444\"]"), "{config}");
    assert_eq!(config.matches("web.pem").count(), 1, "{config}");
}

#[test]
fn certificates_of_clients_are_pinned_without_an_authority() {
    let imported = good(&format!("{WEB}verifyPeer = yes\nCAfile = peers.pem\ncheckHost = a.example\n"));
    assert!(imported.config.contains("pinned = \"peers.pem\""), "{}", imported.config);
    assert!(
        imported.config.contains("allow = [\"insecure-dns-or-cn:a.example\"]"),
        "both are demanded: {}",
        imported.config
    );
    let any = good(&format!("{WEB}requireCert = yes\ncheckHost = a.example\n"));
    assert!(!any.config.contains("allow"), "{}", any.config);
    assert!(any.config.contains("verify = \"insecure-anything\""), "{}", any.config);
    assert!(any.notes.iter().any(|note| note.to_string().contains("any certificate")), "{:?}", any.notes);
}

#[test]
fn a_redirect_to_no_port_is_a_refusal() {
    let imported = good(&format!("{WEB}verifyChain = yes\nCAfile = ca.pem\nredirect = 127.0.0.1:0\n"));
    assert!(!imported.config.contains("fallback-backend") && !imported.is_exact(), "{imported:?}");
    let alone = good(&format!("{WEB}verifyChain = yes\nCAfile = ca.pem\nredirect = 8404\n"));
    assert!(alone.config.contains("fallback-backend = [\"localhost:8404\"]"), "{}", alone.config);
}

#[test]
fn all_backends_of_a_client_receive_the_name_of_the_first() {
    let client = |connect: &str| good(&format!("[out]\nclient = yes\naccept = 1\n{connect}"));
    for (connect, name) in [
        ("connect = a.example:2\n", None),
        ("connect = a.example:2\nconnect = a.example:3\n", None),
        ("connect = a.example:2\nconnect = b.example:2\n", Some("a.example")),
        ("connect = 2\nconnect = b.example:2\n", Some("localhost")),
        ("connect = a.example:2\nconnect = 10.0.0.1:2\n", Some("a.example")),
        ("connect = a.example:2\nconnect = b.example:2\nsni = c.example\n", Some("c.example")),
        ("connect = 10.0.0.1:2\nconnect = 10.0.0.2:2\n", None),
    ] {
        let config = client(connect).config;
        let written = config.lines().find_map(|line| line.strip_prefix("server-name = "));
        assert_eq!(written, name.map(|name| format!("\"{name}\"")).as_deref(), "{connect}{config}");
    }
    let mixed = client("connect = 10.0.0.1:2\nconnect = b.example:2\n");
    assert!(mixed.notes.iter().any(|note| note.to_string().contains("to all backends")), "{:?}", mixed.notes);
}
