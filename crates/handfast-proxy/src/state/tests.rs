//! Paths that sandbox and key process must reach: a path that is missing there fails only at a later reload.

mod examples;

use std::collections::BTreeSet;
use std::path::Path;

use super::*;
use crate::testing::Folder;
use handfast_config::model::{CertificateEntry as Written, Places};

const EVERYTHING: &str = r#"
[admin]
listen = "off"
[access-log]
to = "off"
[[service]]
name = "web"
listen = "127.0.0.1:0"
backend = "127.0.0.1:1"
certificate = ["all", { certificate = "pair.pem", key = "pair.key", ocsp = "pair.ocsp" }, "web.pem"]
backend-tls = { ca = "web.pem", certificate = "client.pem", key = "client.key" }
[[service.rule]]
names = "a.example"
backend-tls = { ca = "web.pem", certificate = "rule.pem" }
"#;

fn parse(text: &str) -> Option<Config> {
    Some(handfast_config::parse("/etc/handfast/handfast.toml", text, &is_folder).ok()?.0)
}

fn is_folder(path: &Path) -> bool {
    path.extension().is_none()
}

/// The same by walking the configuration as it is written.
fn written(config: &Config) -> SourceNeeds {
    let mut needs = SourceNeeds::default();
    for service in &config.services {
        for source in service.tls.iter().flat_map(|tls| &tls.certificates) {
            match source.clone() {
                Written::File { certificate, key, ocsp } => {
                    needs.files.push(certificate);
                    needs.files.extend(key);
                    needs.keyless.extend(ocsp);
                }
                Written::Folder(folder) => needs.folders.push(folder),
                Written::Acme { folder, key_folder, .. } => {
                    needs.folders.push(folder);
                    needs.key_folder = key_folder;
                }
                Written::Throwaway { .. } => {}
            }
        }
        let mut seen = Vec::new();
        for tls in service.routes().into_iter().filter_map(|route| route.backends.tls) {
            if !seen.iter().any(|known| Arc::ptr_eq(known, &tls)) {
                let (certificate, key) = tls.identity.clone().unzip();
                needs.files.extend(certificate.into_iter().chain(key.flatten()));
                seen.push(tls);
            }
        }
    }
    needs
}

#[test]
fn sources_need_what_every_configuration_here_names() {
    let examples: Vec<Config> = examples::all().iter().map(|example| example.parse()).collect();
    let everything = parse(EVERYTHING).expect("it is right");
    let configs: Vec<Config> = examples.into_iter().chain([everything]).collect();
    let mut files = 0;
    for config in &configs {
        let needs = certificate_needs(config);
        assert_eq!(needs, written(config));
        // So the sandbox reaches no more for them than the configuration names.
        let named: BTreeSet<_> = config.places.paths().collect();
        // The certificates that are ordered are in a folder of the one that is named.
        let is_named = |path: &PathBuf| named.iter().any(|known| path.starts_with(known));
        assert!(needs.paths().all(is_named), "{needs:?}: {named:?}");
        files += needs.paths().count();
    }
    assert!(configs.len() > 40 && files > 30, "{} configurations, {files} files", configs.len());
}

#[test]
fn the_key_process_reads_no_file_that_cannot_have_a_key() {
    let config = parse(EVERYTHING).expect("it is right");
    let names = |paths: &[PathBuf]| -> Vec<String> {
        let names = paths.iter().map(|path| path.file_name().expect("a name").to_string_lossy().into_owned());
        names.collect()
    };
    let needs = certificate_needs(&config);
    let files = ["pair.pem", "pair.key", "web.pem", "client.pem", "client.key", "rule.pem"];
    assert_eq!(names(&needs.files), files);
    assert_eq!(names(&needs.folders), ["all"]);
    assert_eq!(names(&needs.keyless), ["pair.ocsp"]);
}

#[test]
fn the_sandbox_reaches_what_sources_need_whatever_the_configuration_names() {
    let folder = Folder::new();
    folder.certificate("client.pem");
    let text = EVERYTHING
        .replace("\"all\", { certificate = \"pair.pem\", key = \"pair.key\", ocsp = \"pair.ocsp\" }, ", "");
    let text = text.replace(", key = \"client.key\"", "").replace("rule.pem", "client.pem");
    let (config, _) = folder.configure_as(&text, &[]).read(false).expect("it is right");
    let built = build(config, 1, None, &mut CarriedOver::with_threads(1), SystemTime::now());
    let mut state = built.state.unwrap_or_else(|| panic!("{:?}", built.report));
    state.config.places = Places::default();
    state.files = Arc::default();
    let read = state.reach(&ConfigSource::File(folder.path("handfast.toml"))).read;
    for name in ["handfast.toml", "web.pem", "client.pem"] {
        assert!(read.contains(&folder.path(name)), "{name}: {read:?}");
    }
}
