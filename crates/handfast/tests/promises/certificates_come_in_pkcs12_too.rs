//! A certificate and its key may come in PKCS#12: for clients and for backends, read here or by the key process, replaced while it
//! runs; a password is named by `check`.

use super::support::certificates::{Identity, KeyKind};
use super::support::secured::{Secured, server};
use super::support::skip::needs;
use super::support::tools::{self, Tool, handfast};
use super::support::*;

/// Puts a certificate, its authority's and its key into one file, by OpenSSL. The authority comes first, as Windows writes it.
fn put(folder: &folder::Folder, name: &str, identity: &Identity, options: &str) -> std::path::PathBuf {
    let pem = folder.write("in.pem", identity.combined()).display().to_string();
    let ca = folder.write("in-ca.pem", &authority().pem).display().to_string();
    let out = folder.file("new.p12");
    let words = format!("pkcs12 -export -in {pem} -certfile {ca} -out {} {options}", out.display());
    let ran = Tool::start("openssl", &words.split(' ').collect::<Vec<_>>()).ended();
    assert_eq!(ran.code, Some(0), "{}", ran.all());
    folder.replace(name, std::fs::read(out).expect("it was written"))
}

fn another(name: &str) -> Identity {
    authority().identity(&[name], KeyKind::Ecdsa)
}

fn serves(apart: bool) {
    needs!("openssl");
    let settings = server(Version::Tls13, true);
    let backend = Backend::start(move |peer| {
        let Ok(mut session) = Secured::accept(peer, &settings) else { return };
        let shown = session.shown();
        session.send(&shown);
        session.close_notify();
        session.read_to_close_notify();
    });
    let folder = folder::Folder::new();
    let (own, shown) = (another("localhost"), another("client.example"));
    let ca = folder.write("ca.pem", &authority().pem);
    let mut config = Config::empty()
        .service("web", backend.address)
        .certificate(&put(&folder, "web.p12", &own, "-passout pass:"))
        .text("process", "watch-interval", "200ms")
        .text("service.backend-tls", "ca", ca.display())
        .text("service.backend-tls", "name", "localhost")
        .text(
            "service.backend-tls",
            "certificate",
            put(&folder, "shown.pfx", &shown, "-passout pass:").display(),
        );
    if apart {
        config = config.text("process", "private-keys", "separate-process");
    }
    let proxy = Proxy::start(config);
    let trust = Trust::version(Version::Tls13).forgetful().config();
    let mut client = Client::try_connect(proxy.address(), &trust, "localhost").expect("it is served");
    assert_eq!(client.certificate(), own.certificate.as_ref());
    assert_eq!(client.read_to_end().bytes, shown.certificate.as_ref());
    let next = another("localhost");
    put(&folder, "web.p12", &next, "-passout pass:");
    wait_until("the new certificate to be served", || {
        let client = Client::try_connect(proxy.address(), &trust, "localhost").ok()?;
        (client.certificate() == next.certificate.as_ref()).then_some(())
    });
}

#[test]
fn read_by_the_proxy() {
    serves(false);
}

#[test]
fn read_by_the_key_process() {
    serves(true);
}

#[test]
fn a_password_is_named_with_its_cure() {
    needs!("openssl");
    let folder = folder::Folder::new();
    let file = put(&folder, "web.p12", &another("localhost"), "-passout pass:secret");
    let check = |certificate: &std::path::Path| {
        let certificate = certificate.display().to_string();
        handfast(&[
            "check",
            "--listen",
            "127.0.0.1:0",
            "--backend",
            "127.0.0.1:1",
            "--certificate",
            &certificate,
        ])
    };
    let ran: tools::Ran = check(&file);
    assert_eq!(ran.code, Some(2), "{}", ran.all());
    let output = ran.all();
    assert!(output.contains("web.p12: is PKCS#12 with a password, expected an empty one"), "{output}");
    assert!(output.contains("hint: openssl pkcs12 -in "), "{output}");
    // Beside the PEM that was made of it, in a folder, it does no harm.
    let certificates = folder.folder("certificates");
    folder.write("certificates/web.pem", another("localhost").combined());
    std::fs::rename(&file, certificates.join("web.p12")).expect("moved");
    let ran = check(&certificates);
    assert_eq!(ran.code, Some(0), "{}", ran.all());
    assert!(ran.all().contains("not used: it is PKCS#12 with a password"), "{}", ran.all());
}
