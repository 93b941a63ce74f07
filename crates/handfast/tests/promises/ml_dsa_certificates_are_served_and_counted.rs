//! Certificates with ML-DSA keys are served, checked on both sides, and counted by their signature. The certificates are
//! those of `handfast-pki/fixtures`, made by OpenSSL.

use super::support::folder::Folder;
use super::support::load::Load;
use super::support::*;

const ROOT: &str = include_str!("../../../handfast-pki/fixtures/ml-dsa/root.pem");
const CERTIFICATES: [(&str, &str, &str); 3] = [
    (
        "ML-DSA-44",
        include_str!("../../../handfast-pki/fixtures/ml-dsa/44.pem"),
        include_str!("../../../handfast-pki/fixtures/ml-dsa/44.seed.key"),
    ),
    (
        "ML-DSA-65",
        include_str!("../../../handfast-pki/fixtures/ml-dsa/65.pem"),
        include_str!("../../../handfast-pki/fixtures/ml-dsa/65.both.key"),
    ),
    (
        "ML-DSA-87",
        include_str!("../../../handfast-pki/fixtures/ml-dsa/87.pem"),
        include_str!("../../../handfast-pki/fixtures/ml-dsa/87.expanded.key"),
    ),
];

fn counted(proxy: &Proxy, signature: &str) -> f64 {
    let labels = [("signature", signature), ("version", "TLSv1.3"), ("kind", "full")];
    proxy.metrics().sum("handfast_handshake_seconds_count", &labels)
}

#[test]
fn each_kind_and_form_of_key() {
    for (name, certificate, key) in CERTIFICATES {
        let stage = Stage::with(Backend::echo(), |config, folder| {
            folder.write("web.pem", format!("{certificate}{key}"));
            config
        });
        let trust = Trust::version(Version::Tls13).trusting_pem(ROOT).config();
        let mut client = stage.client(&trust);
        client.echo(b"signed after quantum computers");
        client.finish();
        wait_until("the handshake to be counted", || (counted(&stage.proxy, name) > 0.5).then_some(()));
        let record = stage.proxy.record("the connection", |record| record.text("signature") == name);
        assert_eq!(record.text("version"), "TLSv1.3");
        // The load tester trusts the same authority and measures it.
        let ca = stage.folder.write("root.pem", ROOT);
        let ran = Load::at(stage.proxy.address())
            .with("--tls 1.3 --sni localhost --connections 2 --duration 1s")
            .file("--ca", &ca)
            .run();
        assert!(counted(&stage.proxy, name) > 2.5, "{}", ran.all());
    }
}

#[test]
fn beside_an_ecdsa_certificate_it_is_the_second_choice() {
    let folder = Folder::new();
    let (_, certificate, key) = CERTIFICATES[0];
    let certificates = folder.folder("certificates");
    folder.write("certificates/a.pem", format!("{certificate}{key}"));
    let ecdsa = authority().identity(&["localhost"], certificates::KeyKind::Ecdsa);
    folder.write("certificates/b.pem", ecdsa.combined());
    let backend = Backend::echo();
    let proxy = Proxy::start(Config::empty().service("web", backend.address).certificate(&certificates));
    let mut client = Client::connect(proxy.address(), &Trust::version(Version::Tls13).config());
    client.echo(b"who can verify both gets the smaller");
    client.finish();
    proxy.record("the connection", |record| record.text("signature") == "ECDSA-P256");
}
