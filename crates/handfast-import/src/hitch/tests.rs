//! Whole files of hitch.

use std::path::Path;

use super::*;

fn good(text: &str) -> Imported {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("hitch.conf");
    std::fs::write(&file, text).expect("written");
    import(&file, Path::new("")).unwrap_or_else(|error| panic!("{error}"))
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
