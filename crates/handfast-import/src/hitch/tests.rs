//! Whole files of hitch.

use std::path::Path;

use super::*;

fn good(text: &str) -> Imported {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("hitch.conf");
    import(&file, text.as_bytes(), &[], Path::new("")).unwrap_or_else(|error| panic!("{error}"))
}

#[test]
fn an_empty_text_is_the_default() {
    let imported =
        good("pem-file = \"web.pem\"\nuser = \"\"\ngroup = \"\"\nciphers = \"\"\npem-dir = \"\"\n");
    assert!(!imported.config.contains("\"\"") && imported.is_exact(), "{imported:?}");
}

#[test]
fn a_frontend_may_have_a_certificate_as_a_block() {
    let text = "frontend = {\n host = \"*\"\n port = \"9443\"\n pem-file = { cert = \"a.crt\"\n private-key = \"a.key\" }\n}\n";
    let config = good(text).config;
    assert!(config.contains("certificate = [{ certificate = \"a.crt\", key = \"a.key\" }]"), "{config}");
}

#[test]
fn a_frontend_with_its_own_certificate_has_that_alone() {
    let text = |more: &str| {
        format!(
            "pem-file = \"all.pem\"\nfrontend = {{ host = \"*\" port = \"9443\" pem-file = \"own.pem\" {more} }}\n"
        )
    };
    let config = good(&text("")).config;
    assert!(config.contains("certificate = [\"own.pem\"]"), "{config}");
    let config = good(&text("match-global-certs = on")).config;
    assert!(config.contains("certificate = [\"own.pem\", \"all.pem\"]"), "{config}");
    let config =
        good("pem-file = \"all.pem\"\nfrontend = { host = \"*\" port = \"9443\" tls-protos = TLSv1.3 }\n")
            .config;
    assert!(config.contains("certificate = [\"all.pem\"]"), "one without has those of all: {config}");
}

#[test]
fn of_a_folder_the_files_that_match_are_served_in_order() {
    let folder = tempfile::tempdir().expect("a folder");
    for name in ["b.pem", "a.pem", "a.pem.old"] {
        std::fs::write(folder.path().join(name), "").expect("written");
    }
    let place = folder.path().display().to_string();
    let config = good(&format!("pem-dir = \"{place}\"\npem-dir-glob = \"*.pem\"\n")).config;
    assert!(config.contains(&format!("certificate = [\"{place}/a.pem\", \"{place}/b.pem\"]")), "{config}");
}

#[test]
fn no_workers_are_as_many_as_there_are_processors() {
    let imported = good("pem-file = \"a.pem\"\nworkers = 0\n");
    assert!(imported.is_whole() && !imported.config.contains("threads"), "{imported:?}");
    assert!(imported.notes[0].effect.contains("serves no client"), "{imported:?}");
}

#[test]
fn addresses_as_bytes_are_sent_as_before() {
    let imported = good("pem-file = \"a.pem\"\nwrite-ip = on\n");
    assert!(imported.is_exact() && imported.config.contains("send = \"address\""), "{imported:?}");
}

#[test]
fn options_of_the_command_line_follow_those_of_the_file() {
    let given = [("backend", "[::1]:9"), ("pem-file", "b.pem")]
        .map(|(name, value)| (name.to_owned(), value.to_owned()));
    let text = b"backend = \"[127.0.0.1]:8\"\npem-file = \"a.pem\"\n";
    let imported = import(Path::new("x"), text, &given, Path::new("")).expect("good");
    for line in ["backend = [\"[::1]:9\"]", "certificate = [\"b.pem\", \"a.pem\"]"] {
        assert!(imported.config.contains(line), "{}", imported.config);
    }
    let wrong = [("backend".to_owned(), "x".to_owned())];
    let imported = import(Path::new("x"), text, &wrong, Path::new("")).expect("it is read");
    assert!(imported.notes[0].to_string().starts_with("command line: backend: refused"), "{imported:?}");
    let unknown = [("bakcend".to_owned(), "x".to_owned())];
    let error = import(Path::new("x"), text, &unknown, Path::new("")).expect_err("no such option");
    assert!(error.to_string().contains("backend"), "{error}");
}

#[test]
fn what_hitch_itself_refuses_is_refused() {
    let front = |inside: &str| {
        format!("pem-file = \"a.pem\"\nfrontend = {{ host = \"*\" port = \"443\" {inside} }}\n")
    };
    for (text, is_good) in [
        (front(""), true),
        (front("") + &front(""), false),
        (front("") + "frontend = \"[*]:444\"\n", true),
        (front("tls-protos = TLSv1.2\nssl = on"), false),
        (front("ssl = on\ntls = off"), false),
        (front("ssl = off\ntls = on"), true),
        (front("") + "tls = on\ntls-protos = TLSv1.2\n", false),
    ] {
        assert_eq!(good(&text).is_whole(), is_good, "{text}");
    }
}

/// Makes a file with a certificate and its key for a name.
fn certified(folder: &Path, name: &str) -> String {
    let key = rcgen::KeyPair::generate().expect("a key");
    let parameters = rcgen::CertificateParams::new(vec![name.to_owned()]).expect("parameters");
    let pem = parameters.self_signed(&key).expect("a certificate").pem() + &key.serialize_pem();
    let file = folder.join(name);
    std::fs::write(&file, pem).expect("written");
    file.display().to_string()
}

#[test]
fn a_certificate_whose_clients_must_show_one_has_a_rule_for_its_names() {
    let folder = tempfile::tempdir().expect("a folder");
    let [one, two] = ["one.test", "two.test"].map(|name| certified(folder.path(), name));
    let verified = |file: &str| {
        format!("pem-file = {{ cert = \"{file}\" client-verify = required client-verify-ca = \"ca.pem\" }}\n")
    };
    let imported = good(&(verified(&one) + &format!("pem-file = \"{two}\"\n")));
    let rule = "[[service.rule]]\nnames = [\"one.test\"]\n";
    assert!(imported.is_whole() && imported.config.contains(rule), "{imported:?}");
    assert!(
        imported.config.contains("ca = \"ca.pem\"") && imported.config.contains("mode = \"require\""),
        "{}",
        imported.config
    );
    // A frontend with separate certificates does not have this rule.
    let own = format!(
        "{}pem-file = \"{two}\"\nfrontend = {{ host = \"*\" port = \"1\" pem-file = \"{two}\" }}\n",
        verified(&one)
    );
    assert!(!good(&own).config.contains("rule"), "{}", good(&own).config);
    // Clients without a name get the last one.
    assert!(!good(&(format!("pem-file = \"{two}\"\n") + &verified(&one))).is_whole());
    assert!(!good(&(verified("nowhere.pem") + &format!("pem-file = \"{two}\"\n"))).is_whole());
}

#[test]
fn localhost_is_one_address_with_a_note() {
    let imported = good("pem-file = \"a.pem\"\nfrontend = \"[localhost]:443\"\n");
    assert!(imported.is_whole() && imported.config.contains("listen = [\"127.0.0.1:443\"]"), "{imported:?}");
    assert!(imported.notes[0].effect.contains("::1"), "{imported:?}");
}
