//! The certificate fits the client: by the name it asks for, exact before wildcard, and by the signatures it can verify; an
//! unknown name gets the first certificate or is refused, as configured.

use rustls::AlertDescription;

use super::support::certificates::{Identity, KeyKind, localhost, localhost_rsa};
use super::support::folder::Folder;
use super::support::skip::needs;
use super::support::*;

fn served(proxy: &Proxy, name: &str) -> Result<Vec<u8>, Refusal> {
    let config = Trust::version(Version::Tls13).config();
    Client::try_connect(proxy.address(), &config, name).map(|client| client.certificate().to_vec())
}

fn is(identity: &Identity) -> Result<Vec<u8>, Refusal> {
    Ok(identity.certificate.to_vec())
}

fn proxy_with(folder: &Folder, identities: &[&Identity], unknown: &str) -> Proxy {
    let mut config = Config::empty().service("web", "127.0.0.1:1").text("service", "unknown-name", unknown);
    for (number, identity) in identities.iter().enumerate() {
        config = config.certificate(&folder.write(&format!("{number}.pem"), identity.combined()));
    }
    Proxy::start(config)
}

#[test]
fn by_name() {
    let folder = Folder::new();
    let make = |names: &[&str]| authority().identity(names, KeyKind::Ecdsa);
    let first = make(&["first.example"]);
    let wild = make(&["*.wild.test"]);
    let exact = make(&["exact.wild.test", "also.test"]);
    let proxy = proxy_with(&folder, &[&first, &wild, &exact], "refuse");
    assert_eq!(served(&proxy, "first.example"), is(&first));
    assert_eq!(served(&proxy, "any.wild.test"), is(&wild));
    assert_eq!(served(&proxy, "exact.wild.test"), is(&exact), "exact before wildcard");
    assert_eq!(served(&proxy, "EXACT.Wild.test"), is(&exact), "names are compared without case");
    assert_eq!(served(&proxy, "also.test"), is(&exact));
    let unknown = Err(Refusal::Alert(AlertDescription::UnrecognisedName));
    assert_eq!(served(&proxy, "a.b.wild.test"), unknown, "a wildcard matches one part");
    assert_eq!(served(&proxy, "wild.test"), unknown);
    assert_eq!(served(&proxy, "elsewhere.test"), unknown);
    let record = proxy.record("a refusal", |record| record.reason().ends_with("/client/unknown-name"));
    assert!(!record.text("sni").is_empty(), "the log has the name that was asked for: {record:?}");
}

#[test]
fn an_unknown_name_gets_the_first_when_configured_so() {
    let folder = Folder::new();
    let first = authority().identity(&["first.example"], KeyKind::Ecdsa);
    let second = authority().identity(&["second.example"], KeyKind::Ecdsa);
    let proxy = proxy_with(&folder, &[&first, &second], "first");
    // The client itself does not like it then; that it is this certificate shows in its complaint and in openssl below.
    assert!(matches!(served(&proxy, "unknown.example"), Err(Refusal::Ours(_))));
    assert_eq!(served(&proxy, "second.example"), is(&second));
    needs!("openssl");
    let address = proxy.address().to_string();
    for name in [&["-servername", "unknown.example"][..], &["-noservername"]] {
        let ran = tools::run("openssl", &[&["s_client", "-connect", &address], name].concat(), b"");
        assert!(ran.output.contains(first.certificate_pem.trim()), "{name:?}: {ran:?}");
    }
    // As DNS writes a whole name, with a dot behind it; the other test clients leave that out.
    let ran =
        tools::run("openssl", &["s_client", "-connect", &address, "-servername", "Second.example."], b"");
    assert!(ran.output.contains(second.certificate_pem.trim()), "{ran:?}");
    proxy.record("the name without its dot", |record| record.text("sni") == "second.example");
}

#[test]
fn by_what_the_client_can_verify() {
    needs!("openssl");
    let folder = Folder::new();
    for order in [[localhost(), localhost_rsa()], [localhost_rsa(), localhost()]] {
        let proxy = proxy_with(&folder, &order, "first");
        let kind_for = |arguments: &[&str]| {
            let address = proxy.address().to_string();
            let base = ["s_client", "-connect", &address, "-servername", "localhost"];
            let ran = tools::run("openssl", &[&base, arguments].concat(), b"");
            let all = ran.all();
            let line = all.lines().find(|line| line.contains("Peer signature type")).map(str::trim);
            line.unwrap_or("no signature").to_owned()
        };
        assert!(kind_for(&["-tls1_3"]).contains("ECDSA"), "ECDSA is preferred where the client can");
        assert!(kind_for(&["-tls1_2"]).contains("ECDSA"));
        assert!(kind_for(&["-tls1_3", "-sigalgs", "rsa_pss_rsae_sha256"]).contains("RSA"));
        assert!(kind_for(&["-tls1_2", "-sigalgs", "rsa_pkcs1_sha256"]).contains("RSA"));
        assert!(kind_for(&["-tls1_2", "-cipher", "ECDHE-RSA-AES128-GCM-SHA256"]).contains("RSA"));
        assert!(kind_for(&["-tls1_3", "-sigalgs", "ecdsa_secp256r1_sha256"]).contains("ECDSA"));
    }
}

#[test]
fn keys_in_every_usual_form() {
    needs!("openssl");
    let folder = Folder::new();
    for (identity, forms) in [
        (localhost_rsa(), [&["rsa", "-traditional"][..], &["pkcs8", "-topk8", "-nocrypt"]]),
        (localhost(), [&["ec"][..], &["pkcs8", "-topk8", "-nocrypt"]]),
    ] {
        for form in forms {
            let plain = folder.write("plain.key", &identity.key_pem);
            let plain = plain.display().to_string();
            let ran = tools::run("openssl", &[form, &["-in", &plain]].concat(), b"");
            assert!(ran.output.contains("PRIVATE KEY"), "{ran:?}");
            let pair =
                (folder.write("chain.pem", &identity.certificate_pem), folder.write("form.key", &ran.output));
            let apart = Config::empty().service("web", "127.0.0.1:1").certificate(&pair.0).text(
                "service",
                "key",
                pair.1.display(),
            );
            assert_eq!(served(&Proxy::start(apart), "localhost"), is(identity), "{form:?} apart");
            // The key may stand before the chain as well.
            for text in [
                format!("{}{}", identity.certificate_pem, ran.output),
                format!("{}{}", ran.output, identity.certificate_pem),
            ] {
                let together = Config::empty()
                    .service("web", "127.0.0.1:1")
                    .certificate(&folder.write("both.pem", text));
                assert_eq!(served(&Proxy::start(together), "localhost"), is(identity), "{form:?} together");
            }
        }
    }
}
