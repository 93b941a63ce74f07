//! A resumption that cannot be is a full handshake, never a failure: not with a ticket of another hash and a HelloRetryRequest,
//! and not with early data that another server's ticket allowed.

use super::support::skip::needs;
use super::support::*;

/// The openssl client that sends a line, sees it come back, and ends; what it said of the session.
fn line_comes_back(address: &str, more: &[&str]) -> String {
    let usual = ["s_client", "-no_ign_eof", "-connect", address, "-servername", "localhost", "-tls1_3"];
    let mut client = tools::Tool::start("openssl", &[&usual[..], more].concat());
    client.send(b"sent by openssl\n");
    client.output.containing("sent by openssl");
    let ran = client.ended();
    assert_eq!(ran.code, Some(0), "{ran:?}");
    ran.all()
}

/// RFC 9846 §4.2.2: after a HelloRetryRequest the client takes back a ticket that does not fit the suite in it.
#[test]
fn a_ticket_is_taken_back_after_a_retry() {
    needs!("openssl");
    let stage = Stage::echo();
    let address = stage.proxy.address().to_string();
    let session = stage.folder.file("session").display().to_string();
    let aes_256 = ["-ciphersuites", "TLS_AES_256_GCM_SHA384"];
    let first = line_comes_back(&address, &[&aes_256[..], &["-sess_out", &session]].concat());
    assert!(first.contains("New, TLSv1.3, Cipher is TLS_AES_256_GCM_SHA384"), "{first}");
    let again = line_comes_back(&address, &["-sess_in", &session, "-groups", "P-521:P-256"]);
    assert!(again.contains("New, TLSv1.3, Cipher is TLS_AES_128_GCM_SHA256"), "{again}");
    let record = stage.proxy.record("the retry", |record| record.flag("hello_retry") == Some(true));
    assert_eq!(record.reason(), "relay/client/finished", "{record:?}");
    // The same ticket where it does fit.
    let fits = [&aes_256[..], &["-sess_in", &session, "-groups", "P-521:P-256"]].concat();
    let fits = line_comes_back(&address, &fits);
    assert!(fits.contains("Reused, TLSv1.3, Cipher is TLS_AES_256_GCM_SHA384"), "{fits}");
    stage.is_quiet();
}

/// RFC 9846 §4.3.10: a server that takes no early data skips it.
#[test]
fn early_data_is_skipped() {
    needs!("openssl");
    let stage = Stage::echo();
    let pem = stage.folder.write("other.pem", certificates::localhost().combined()).display().to_string();
    let session = stage.folder.file("session").display().to_string();
    let other = tools::Tool::start(
        "openssl",
        &["s_server", "-accept", "127.0.0.1:0", "-cert", &pem, "-early_data", "-max_early_data", "100000"],
    );
    let line = other.output.containing("ACCEPT ");
    let elsewhere = line.trim_start_matches("ACCEPT ").to_owned();
    let client = tools::Tool::start(
        "openssl",
        &["s_client", "-connect", &elsewhere, "-servername", "localhost", "-tls1_3", "-sess_out", &session],
    );
    let read = || std::fs::read_to_string(&session).unwrap_or_default();
    deadline::wait_until("a ticket", || read().contains("END SSL SESSION").then_some(()));
    drop(client.ended());
    for bytes in [100, 6_000, 16_384, 50_000] {
        let early = stage.folder.write("early", "e".repeat(bytes)).display().to_string();
        for groups in [&[][..], &["-groups", "P-521:P-256"]] {
            let usual = ["-sess_in", &session, "-early_data", &early];
            let output = line_comes_back(&stage.proxy.address().to_string(), &[&usual[..], groups].concat());
            assert!(
                output.contains("Early data was rejected") && !output.contains("eeee"),
                "{bytes}: {output}"
            );
        }
    }
    stage.is_quiet();
}
