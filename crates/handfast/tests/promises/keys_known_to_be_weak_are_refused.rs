//! Keys known to be weak are refused wherever one is read: served, trusted, or presented by a client or a server.
//!
//! The private keys of all samples are public.

use std::sync::Arc;

use rustls::{AlertDescription, ClientConfig};

use super::support::certificates::{Identity, KeyKind, localhost};
use super::support::folder::Folder;
use super::support::load::Load;
use super::support::servers::Openssl;
use super::support::tools::{Ran, handfast};
use super::support::*;

macro_rules! sample {
    ($name:literal) => {
        include_str!(concat!("../../../handfast-pki/src/weak/tests/", $name))
    };
}

const ROCA: &str = sample!("roca-2048.key");
const CLOSE: &str = sample!("close-primes-2048.key");
const DEBIAN: &str = sample!("debian-2048-a.key");
/// Known keys, that one among them.
const LIST: &str = sample!("debian-sample.csv");

fn with_key(key: &str) -> Identity {
    authority().identity_with(&["localhost"], key)
}

/// Runs `check` and a start for a configuration that serves this, with the list of known keys beside it.
fn serving(content: &str) -> [Ran; 2] {
    let folder = Folder::new();
    let list = folder.write("known.csv", LIST);
    let config = Config::empty()
        .set("process", "weak-keys", format!("[{list:?}]"))
        .service("web", "127.0.0.1:1")
        .certificate(&folder.write("web.pem", content));
    let file = folder.write("handfast.toml", config.to_string()).display().to_string();
    ["check", "proxy"].map(|verb| handfast(&[verb, "-c", &file]))
}

#[test]
fn none_is_served() {
    let weak = |key: &str| with_key(key).combined();
    // Keys that the library does not parse itself.
    let unread = |key: &str| localhost().certificate_pem.clone() + key;
    for (content, words) in [
        (weak(CLOSE), "the certificate's RSA key has two primes that are close together"),
        (weak(ROCA), "the certificate's RSA key has the fingerprint of ROCA"),
        (weak(DEBIAN), "the certificate's RSA key is on the list of known keys"),
        (
            sample!("debian-p256.crt").to_owned() + sample!("debian-p256.key"),
            "the certificate's ECDSA key is on the list",
        ),
        (unread(sample!("small-1024.key")), "the RSA key has 1024 bits, expected 2048 or more"),
        (unread(sample!("exponent-1.key")), "the RSA key has the public exponent 1"),
        (unread(sample!("exponent-even.key")), "the RSA key has an even public exponent"),
    ] {
        for ran in serving(&content) {
            assert_eq!(ran.code, Some(2), "{words}: {}", ran.all());
            assert!(ran.talk.contains("web.pem: ") && ran.talk.contains(words), "{words}: {}", ran.all());
        }
    }
}

#[test]
fn two_that_share_a_prime_factor_are_not_served() {
    let folder = Folder::new();
    let pairs = [
        (sample!("shared-prime-a.crt"), sample!("shared-prime-a.key")),
        (sample!("shared-prime-b.crt"), sample!("shared-prime-b.key")),
    ];
    let [one, other] = pairs.map(|(certificate, key)| [certificate, key].concat());
    let (one, other) = (folder.write("one.pem", one), folder.write("other.pem", other));
    let alone = Config::empty().service("web", "127.0.0.1:1").certificate(&one);
    let both = alone.clone().service("mail", "127.0.0.1:1").certificate(&other);
    let run = |verb: &str, config: &Config| {
        let file = folder.write("handfast.toml", config.to_string()).display().to_string();
        handfast(&[verb, "-c", &file])
    };
    let good = run("check", &alone);
    assert_eq!(good.code, Some(0), "each alone is good: {}", good.all());
    for verb in ["check", "proxy"] {
        let ran = run(verb, &both);
        assert_eq!(ran.code, Some(2), "{}", ran.all());
        let words =
            "other.pem: the RSA key of b.example has a prime factor in common with that of a.example in ";
        assert!(ran.talk.contains(words), "{}", ran.all());
    }
}

/// A service that wants certificates, and knows the keys on a list.
fn stage() -> Stage {
    Stage::with(Backend::echo(), |config, folder| {
        let ca = folder.write("ca.pem", &authority().pem);
        let list = folder.write("known.csv", "8b4611b0db08e2eabca8\n");
        config
            .text("service.client-certificates", "mode", "require")
            .text("service.client-certificates", "ca", ca.display())
            .set("process", "weak-keys", format!("[{list:?}]"))
    })
}

/// The alert that a client gets.
fn alert(stage: &Stage, config: &Arc<ClientConfig>) -> Option<AlertDescription> {
    match Client::try_connect(stage.proxy.address(), config, "localhost") {
        // In TLS 1.3 the client is content with itself before the proxy has looked.
        Ok(mut client) => client.read_to_end().alert,
        Err(Refusal::Alert(alert)) => Some(alert),
        Err(other) => panic!("{other:?}"),
    }
}

#[test]
fn no_client_is_let_in_by_one() {
    let stage = stage();
    for version in Version::BOTH {
        for (key, words) in [(ROCA, "the fingerprint of ROCA"), (CLOSE, "two primes that are close together")]
        {
            let config = Trust::version(version).showing(&with_key(key)).config();
            assert_eq!(alert(&stage, &config), Some(AlertDescription::BadCertificate), "{version:?} {words}");
            let expected = format!("the client's certificate was refused: its key has {words}");
            stage.proxy.record(words, |record| {
                record.reason() == "handshake/client/client-certificate"
                    && record.detail().starts_with(&expected)
            });
        }
    }
    let good = authority().identity(&["client.example"], KeyKind::Rsa);
    let mut client = stage.client(&Trust::version(Version::Tls13).showing(&good).config());
    client.echo(b"a good one is served");
    client.finish();
    stage.is_quiet();
}

#[test]
fn a_list_is_reloaded_and_no_ticket_gets_around_it() {
    let stage = stage();
    let identity = with_key(DEBIAN);
    for version in Version::BOTH {
        stage.folder.replace("known.csv", "8b4611b0db08e2eabca8\n");
        assert!(stage.proxy.reload());
        let config = Trust::version(version).showing(&identity).config();
        let mut open = stage.client(&config);
        open.echo(b"no list knows this key yet");
        // It resumes while nothing has changed.
        let mut again = stage.client(&config);
        again.echo(b"with a ticket");
        assert!(again.resumed(), "{version:?}");
        again.finish();
        stage.folder.replace("known.csv", LIST);
        assert!(stage.proxy.reload());
        assert_eq!(alert(&stage, &config), Some(AlertDescription::BadCertificate), "{version:?}");
        open.echo(b"an open connection is left alone");
        open.finish();
    }
    let record = stage.proxy.record_of("handshake/client/client-certificate");
    assert!(record.detail().contains("its key is on the list of known keys"), "{record:?}");
    // A list that breaks goes on being used as it was, and this is said.
    stage.folder.replace("known.csv", "nonsense\n");
    assert!(!stage.proxy.reload());
    let config = Trust::version(Version::Tls13).showing(&identity).config();
    assert_eq!(alert(&stage, &config), Some(AlertDescription::BadCertificate));
    let output = stage.proxy.status().to_string();
    assert!(output.contains("line 1: no known key in it; keys of its old version are refused"), "{output}");
}

#[test]
fn the_load_tester_refuses_a_server_with_one() {
    let folder = Folder::new();
    let both = folder.write("weak.pem", with_key(ROCA).combined());
    let ca = folder.write("ca.pem", &authority().pem);
    let server = Openssl::start(&format!("-www -cert {}", both.display()));
    let load = || Load::at(server.address).with("-c 1 -d 200ms -q");
    let ended = load().file("--ca", &ca).run();
    let expected = "handshake: the server's certificate was refused: its key has the fingerprint of ROCA";
    assert!(ended.code == Some(1) && ended.talk.contains(expected), "{}", ended.all());
    // Nor is one trusted that is named as a CA.
    let own = folder.write("own.pem", sample!("close-primes-2048.crt"));
    let ended = load().file("--ca", &own).run();
    let expected = "trusted CA 1: its key has two primes that are close together";
    assert!(ended.code != Some(0) && ended.all().contains(expected), "{}", ended.all());
}

#[test]
fn one_key_for_strangers_is_warned_of() {
    let folder = Folder::new();
    let one = authority().identity(&["a.example.org"], KeyKind::Rsa);
    let other = authority().identity_with(&["b.example.com"], &one.key_pem);
    let config = Config::empty()
        .service("one", "127.0.0.1:1")
        .certificate(&folder.write("one.pem", one.combined()))
        .service("other", "127.0.0.1:1")
        .certificate(&folder.write("other.pem", other.combined()));
    let file = folder.write("handfast.toml", config.to_string()).display().to_string();
    let ran = handfast(&["check", "-c", &file]);
    assert_eq!(ran.code, Some(0), "{}", ran.all());
    let expected =
        "other.pem: the certificate of b.example.com has the same key as that of a.example.org in ";
    assert!(ran.talk.contains(expected), "{}", ran.all());
}

#[test]
fn lists_are_packed_and_a_broken_one_is_named_with_its_line() {
    let folder = Folder::new();
    let path = |name: &str| folder.file(name).display().to_string();
    folder.write("known.csv", LIST);
    folder.write("blacklist.RSA-2048", "# from Debian\n8b4611b0db08e2eabca8\n");
    let ran = handfast(&[
        "weak-keys",
        "pack",
        &path("known.csv"),
        &path("blacklist.RSA-2048"),
        "-o",
        &path("packed"),
    ]);
    assert_eq!(ran.code, Some(0), "{}", ran.all());
    assert!(
        ran.output.contains("packed: 130 keys by SHA-256, 1 entries of openssl-blacklist"),
        "{}",
        ran.all()
    );
    let check = |list: &str| {
        let config = Config::empty()
            .set("process", "weak-keys", format!("[{:?}]", path(list)))
            .service("web", "127.0.0.1:1")
            .certificate(&folder.write("web.pem", with_key(DEBIAN).combined()));
        let file = folder.write("handfast.toml", config.to_string()).display().to_string();
        handfast(&["check", "--explain", "-c", &file]).all()
    };
    let output = check("packed");
    assert!(output.contains("is on the list of known keys") && output.contains("packed"), "{output}");
    folder.write("wrong.csv", "name,sha256\nx,1234\n");
    let output = check("wrong.csv");
    assert!(
        output.contains("wrong.csv: line 2: no known key in it") && output.contains("handfast.toml:"),
        "{output}"
    );
    let ran = handfast(&["weak-keys", "pack", &path("wrong.csv"), "-o", &path("none")]);
    assert_eq!(ran.code, Some(2), "{}", ran.all());
    assert!(
        ran.talk.contains("wrong.csv: line 2: no known key") && !folder.file("none").exists(),
        "{}",
        ran.all()
    );
}
