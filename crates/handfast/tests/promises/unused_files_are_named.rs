//! Unused files are named, with the reason: every file of a folder that is no certificate, a key without its certificate, a certificate
//! that is not good yet or no longer; and keys that others can read.

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

/// The message of the proxy about a file, behind its name: the path itself has words that could be taken for a reason.
fn message_about(proxy: &Proxy, file: &str) -> String {
    let line = proxy.talk.containing(&format!("{file}: "));
    line.split_once(&format!("{file}: ")).map(|(_, message)| message.to_owned()).expect("the line has it")
}

#[test]
fn a_file_that_is_no_certificate() {
    let (_folder, proxy) = folder_with("README", "certificates of this machine\n");
    assert_eq!(message_about(&proxy, "README"), "not used: it holds no PEM section");
}

#[test]
fn a_key_without_its_certificate() {
    let stranger = authority().identity(&["other.example"], KeyKind::Ecdsa);
    let (_folder, proxy) = folder_with("lonely.key", &stranger.key_pem);
    assert_eq!(message_about(&proxy, "lonely.key"), "not used: a key without its certificate");
}

#[test]
fn a_certificate_without_its_key() {
    let stranger = authority().identity(&["other.example"], KeyKind::Ecdsa);
    let (_folder, proxy) = folder_with("keyless.pem", &stranger.certificate_pem);
    let message = message_about(&proxy, "keyless.pem");
    assert!(
        message.starts_with("not used: ") && message.ends_with(" has no key in this folder"),
        "{message}"
    );
}

#[test]
fn a_certificate_out_of_its_time() {
    for (name, from, to, word) in [
        ("old.pem", 2000, 2001, " expired "),
        ("new.pem", 2090, 2099, " is valid only from 2090-01-01 00:00:00 UTC"),
    ] {
        let identity = authority().identity_between(&["other.example"], KeyKind::Ecdsa, from, to);
        let (_folder, proxy) = folder_with(name, identity.combined());
        let message = message_about(&proxy, name);
        assert!(message.contains(word) && message.contains(": clients refuse it"), "{message}");
    }
}

/// Output of a verb for a configuration with one certificate file.
fn verb_output(verb: &str, name: &str, text: impl AsRef<[u8]>, mode: u32) -> tools::Ran {
    let folder = Folder::new();
    let path = folder.write(name, text);
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode)).expect("it is ours");
    let config = Config::empty().service("web", "127.0.0.1:1").certificate(&path);
    let file = folder.write("handfast.toml", config.to_string());
    tools::handfast(&[verb, "-c", &file.display().to_string()])
}

#[test]
fn a_key_that_others_can_read() {
    for (mode, readers) in [
        (0o640, "its group (mode 0640), expected 0600"),
        (0o644, "all users of this machine (mode 0644), expected 0600"),
    ] {
        let ran = verb_output("check", "web.pem", localhost().combined(), mode);
        assert_eq!(ran.code, Some(0), "{ran:?}");
        assert!(ran.talk.contains(&format!("web.pem: the key is open to {readers} (")), "{ran:?}");
        assert!(ran.talk.contains("hint: chmod 600 "), "{ran:?}");
    }
    let ran = verb_output("check", "web.pem", localhost().combined(), 0o600);
    assert_eq!((ran.code, ran.talk.as_str()), (Some(0), ""), "{ran:?}");
}

#[test]
fn a_key_that_does_not_fit() {
    let other = authority().identity(&["localhost"], KeyKind::Ecdsa);
    let mixed = format!("{}{}", localhost().certificate_pem, other.key_pem);
    let ran = verb_output("proxy", "mixed.pem", mixed, 0o600);
    assert_eq!(ran.code, Some(2), "{ran:?}");
    assert!(ran.talk.contains("mixed.pem: key does not fit the certificate of "), "{ran:?}");
    assert!(ran.talk.contains("their public keys differ"), "{ran:?}");
}
