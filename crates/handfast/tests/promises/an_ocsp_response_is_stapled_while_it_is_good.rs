//! An OCSP response from a file is stapled in both versions while it is good: one that expired, is about another certificate
//! or says no good of it is not stapled, is reported, and takes no certificate away. Responses are those of
//! `handfast-pki/fixtures`, made by other software; OpenSSL, curl and GnuTLS judge what they get.

use super::real_clients_are_served::http_backend;
use super::support::folder::Folder;
use super::support::skip::needs;
use super::support::*;

const CHAIN: &str = include_str!("../../../handfast-pki/fixtures/ocsp/chain.pem");
const KEY: &str = include_str!("../../../handfast-pki/fixtures/ocsp/key.pem");
const RESPONSES: &str = include_str!("../../../handfast-pki/fixtures/ocsp/responses.pem");

/// The response under a heading, as PEM.
fn response(heading: &str) -> String {
    let (_, text) = RESPONSES.split_once(&format!("{heading}\n")).expect("it is there");
    let (response, _) = text.split_once("-----END OCSP RESPONSE-----").expect("it ends");
    format!("{response}-----END OCSP RESPONSE-----\n")
}

/// A proxy whose certificate has a response beside it.
fn stage(heading: &str) -> Stage {
    Stage::with(http_backend(), |config, folder| {
        folder.write("web.pem", format!("{CHAIN}{KEY}"));
        folder.write("web.pem.ocsp", response(heading));
        config.text("process", "watch-interval", "200ms")
    })
}

/// Report of openssl about the response that it received, in one version.
fn ocsp_report(stage: &Stage, version: &str) -> String {
    let address = stage.proxy.address().to_string();
    let arguments = ["s_client", "-connect", &address, "-servername", "localhost", "-status", version];
    let ran = tools::run("openssl", &arguments, b"");
    assert!(ran.all().contains("BEGIN CERTIFICATE"), "the certificate is served: {ran:?}");
    ran.all()
}

fn is_stapled(stage: &Stage) -> bool {
    let [old, new] = stapled(stage);
    assert_eq!(old, new, "both versions are alike");
    new
}

/// In TLS 1.2, and in 1.3. While threads take over a state, the two may differ.
fn stapled(stage: &Stage) -> [bool; 2] {
    ["-tls1_2", "-tls1_3"].map(|version| {
        let report = ocsp_report(stage, version);
        let is = report.contains("OCSP Response Status: successful");
        assert!(is || report.contains("OCSP response: no response sent"), "{report}");
        is
    })
}

fn problems(stage: &Stage) -> f64 {
    stage.proxy.metrics().sum("handfast_certificate_file_problems", &[("kind", "ocsp")])
}

#[test]
fn good_ones_are_and_other_programs_accept_them() {
    needs!("openssl");
    for heading in ["good", "good, certificate id by SHA-256", "good, by a responder"] {
        let stage = stage(heading);
        assert!(is_stapled(&stage), "{heading}");
        assert!(ocsp_report(&stage, "-tls1_3").contains("Cert Status: good"));
        let labels = [("service", "web"), ("certificate", "localhost"), ("kind", "ECDSA-P256")];
        let left = stage.proxy.metrics().sum("handfast_ocsp_response_expires_in_seconds", &labels);
        assert!(left > 1e9, "until 2099: {left}");
        assert!(problems(&stage) < 0.5);
        // The program curl looks for a certificate id by SHA-1 only.
        if !heading.contains("SHA-256") {
            curl_accepts(&stage);
        }
        gnutls_accepts(&stage);
    }
}

/// The issuer, for clients to trust.
fn authority_file(stage: &Stage) -> String {
    let issuer = &CHAIN[CHAIN.rfind("-----BEGIN").expect("it is PEM")..];
    stage.folder.write("ca.pem", issuer).display().to_string()
}

/// curl checks signature, certificate and time (`--cert-status`), and fails with 91 when it gets none.
fn curl_accepts(stage: &Stage) {
    needs!("curl");
    let (ca, port) = (authority_file(stage), stage.proxy.address().port());
    let (url, resolve) = (format!("https://localhost:{port}/"), format!("localhost:{port}:127.0.0.1"));
    let common = ["-sS", "--noproxy", "*", "--max-time", "20", "--cacert", &ca, "--resolve", &resolve];
    for flags in [["--tls-max", "1.2"], ["--tlsv1.3", "--http1.1"]] {
        let ran = tools::run("curl", &[&common[..], &["--cert-status", &url], &flags].concat(), b"");
        assert_eq!((ran.code, ran.output.as_str()), (Some(0), "served through the proxy\n"), "{ran:?}");
    }
}

fn gnutls_accepts(stage: &Stage) {
    needs!("gnutls-cli");
    let (ca, port) = (authority_file(stage), stage.proxy.address().port());
    let arguments =
        ["--x509cafile", &ca, "--sni-hostname", "localhost", "--verify-hostname", "localhost", "-p"];
    let port = port.to_string();
    let ran = tools::run("gnutls-cli", &[&arguments[..], &[&port, "127.0.0.1"]].concat(), b"");
    assert!(ran.all().contains("OCSP status request"), "{ran:?}");
    assert!(ran.all().contains("Handshake was completed"), "{ran:?}");
}

#[test]
fn one_that_cannot_be_used_is_not_and_the_certificate_is_served() {
    needs!("openssl");
    for (heading, words) in [
        ("expired", "expired on 2021-01-01 00:00:00 UTC; it is not stapled"),
        ("of another certificate", "is about another certificate than the one that is served"),
    ] {
        let stage = stage(heading);
        assert!(!is_stapled(&stage), "{heading}");
        assert!((problems(&stage) - 1.0).abs() < 0.5, "{heading}");
        assert!(!stage.proxy.metrics().has("handfast_ocsp_response_expires_in_seconds"));
        stage.proxy.talk.containing(words);
    }
}

#[test]
fn one_that_says_no_good_is_refused_at_a_start_and_dropped_at_a_reload() {
    needs!("openssl");
    let stage = stage("good");
    assert!(is_stapled(&stage));
    // Half a file takes nothing away.
    stage.folder.write("web.pem.ocsp", "-----BEGIN OCSP RESPONSE-----\nMII");
    wait_until("the broken file to be counted", || (problems(&stage) > 0.5).then_some(()));
    assert!(is_stapled(&stage), "the response of before is good");
    stage.folder.replace("web.pem.ocsp", response("good, by a responder"));
    wait_until("the good file to be used", || (problems(&stage) < 0.5).then_some(()));
    stage.folder.replace("web.pem.ocsp", response("revoked"));
    wait_until("the response to be dropped", || {
        // Each thread takes it over for itself.
        (0..4).all(|_| stapled(&stage) == [false; 2]).then_some(())
    });
    stage
        .proxy
        .talk
        .containing("says that the certificate was revoked on 2026-03-01 00:00:00 UTC; it is not stapled");
}

#[test]
fn a_file_that_is_named_must_be_there_and_good() {
    let folder = Folder::new();
    let chain = folder.write("web.pem", CHAIN);
    let key = folder.write("web.key", KEY);
    let config = |ocsp: &str| {
        let certificate = format!(
            "{{ certificate = {:?}, key = {:?}, ocsp = {:?} }}",
            chain.display().to_string(),
            key.display().to_string(),
            folder.file(ocsp).display().to_string()
        );
        Config::empty().service("web", "127.0.0.1:1").set("service", "certificate", certificate)
    };
    let check = |ocsp: &str| {
        let file = folder.write("handfast.toml", config(ocsp).to_string());
        let file = file.display().to_string();
        tools::handfast(&["check", "-c", &file, "--explain"])
    };
    folder.write("good.pem", response("good"));
    folder.write("revoked.pem", response("revoked"));
    folder.write("expired.pem", response("expired"));
    let ran = check("good.pem");
    assert_eq!(ran.code, Some(0), "{ran:?}");
    assert!(ran.all().contains("OCSP response stapled until 2099-01-01 00:00:00 UTC"), "{ran:?}");
    let ran = check("expired.pem");
    assert_eq!(ran.code, Some(0), "it must not keep a machine from starting at night: {ran:?}");
    assert!(ran.all().contains("expired.pem: expired on 2021-01-01"), "{ran:?}");
    for (file, words) in [
        ("none.pem", "none.pem: is not there; no OCSP response is stapled (handfast.toml:"),
        ("revoked.pem", "revoked.pem: says that the certificate was revoked on 2026-03-01 00:00:00 UTC"),
    ] {
        let ran = check(file);
        assert_eq!(ran.code, Some(2), "{ran:?}");
        let output = ran.all().replace(&format!("{}/", folder.path().display()), "");
        assert!(output.contains(words), "{output}");
    }
}
