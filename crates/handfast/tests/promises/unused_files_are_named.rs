//! What is not used is named, with the reason: every file of a folder that is no certificate, a key without its certificate, a
//! certificate that is not good yet or no longer; and keys that others can read.

use std::os::unix::fs::PermissionsExt;

use super::support::certificates::{KeyKind, localhost};
use super::support::folder::Folder;
use super::support::*;

/// A folder with one good certificate, and something else in it.
fn folder_with(name: &str, text: impl AsRef<[u8]>) -> (Folder, Proxy) {
    let folder = Folder::new();
    let path = folder.folder("certificates");
    folder.write("certificates/good.pem", localhost().combined());
    folder.write(&format!("certificates/{name}"), text);
    let proxy = Proxy::start(Config::empty().service("web", "127.0.0.1:1").certificate(&path));
    (folder, proxy)
}

/// What the proxy says about a file.
fn said_about(proxy: &Proxy, file: &str) -> String {
    let line = proxy.talk.containing(file);
    line.to_lowercase()
}

#[test]
fn a_file_that_is_no_certificate() {
    let (_folder, proxy) = folder_with("README", "certificates of this machine\n");
    said_about(&proxy, "README");
}

#[test]
fn a_key_without_its_certificate() {
    let stranger = authority().identity(&["other.example"], KeyKind::Ecdsa);
    let (_folder, proxy) = folder_with("lonely.key", &stranger.key_pem);
    assert!(said_about(&proxy, "lonely.key").contains("certificate"), "{:?}", proxy.talk.so_far());
}

#[test]
fn a_certificate_without_its_key() {
    let stranger = authority().identity(&["other.example"], KeyKind::Ecdsa);
    let (_folder, proxy) = folder_with("keyless.pem", &stranger.certificate_pem);
    assert!(said_about(&proxy, "keyless.pem").contains("key"), "{:?}", proxy.talk.so_far());
}

#[test]
fn a_certificate_out_of_its_time() {
    for (name, from, to, word) in
        [("old.pem", 2000, 2001, "expired"), ("new.pem", 2090, 2099, "valid only from")]
    {
        let identity = authority().identity_between(&["other.example"], KeyKind::Ecdsa, from, to);
        let (_folder, proxy) = folder_with(name, identity.combined());
        let said = said_about(&proxy, name);
        assert!(said.contains(word), "{said}");
    }
}

#[test]
fn a_key_that_others_can_read() {
    let folder = Folder::new();
    let path = folder.write("web.pem", localhost().combined());
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o644)).expect("it is ours");
    let config = Config::empty().service("web", "127.0.0.1:1").certificate(&path);
    let file = folder.write("handfast.toml", config.to_string());
    let ran = tools::handfast(&["check", "-c", &file.display().to_string()]);
    assert!(ran.all().contains("web.pem") && ran.all().contains("hint:"), "{ran:?}");
}

#[test]
fn a_key_that_does_not_fit() {
    let folder = Folder::new();
    let other = authority().identity(&["localhost"], KeyKind::Ecdsa);
    let path = folder.write("mixed.pem", format!("{}{}", localhost().certificate_pem, other.key_pem));
    let config = Config::empty().service("web", "127.0.0.1:1").certificate(&path);
    let file = folder.write("handfast.toml", config.to_string());
    let ran = tools::handfast(&["proxy", "-c", &file.display().to_string()]);
    assert_eq!(ran.code, Some(2), "{ran:?}");
    assert!(ran.talk.contains("mixed.pem") && ran.talk.contains("key"), "{ran:?}");
}
