//! Real clients are served: curl, openssl s_client, gnutls-cli and Python's ssl, with TLS 1.2 and 1.3, with verification on; and
//! they see an abort as an abort.

use super::support::skip::needs;
use super::support::*;

/// A backend that answers one HTTP request and ends.
pub(super) fn http_backend() -> Backend {
    Backend::start(|peer| {
        use std::io::{BufRead, BufReader};
        let mut reader = BufReader::new(&peer.stream);
        let mut line = String::new();
        while reader.read_line(&mut line).is_ok_and(|count| count > 2) {
            line.clear();
        }
        let body = "served through the proxy\n";
        let answer =
            format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{body}", body.len());
        peer.send(answer.as_bytes());
    })
}

fn ca_file(stage: &Stage) -> String {
    stage.folder.write("ca.pem", &authority().pem).display().to_string()
}

#[test]
fn curl() {
    needs!("curl");
    let stage = Stage::with(http_backend(), |config, _| config);
    let (ca, port) = (ca_file(&stage), stage.proxy.address().port());
    let (url, resolve) = (format!("https://localhost:{port}/"), format!("localhost:{port}:127.0.0.1"));
    for (version, flags) in [("TLSv1.2", ["--tls-max", "1.2"]), ("TLSv1.3", ["--tlsv1.3", "--http1.1"])] {
        let common =
            ["-sS", "--noproxy", "*", "--max-time", "20", "--cacert", &ca, "--resolve", &resolve, &url];
        let ran = tools::run("curl", &[&common[..], &flags[..]].concat(), b"");
        assert_eq!((ran.code, ran.output.as_str()), (Some(0), "served through the proxy\n"), "{ran:?}");
        stage
            .proxy
            .record(version, |record| record.text("version") == version && record.text("sni") == "localhost");
    }
    stage.is_quiet();
}

#[test]
fn openssl() {
    needs!("openssl");
    let stage = Stage::echo();
    let (ca, address) = (ca_file(&stage), stage.proxy.address().to_string());
    for version in ["-tls1_2", "-tls1_3"] {
        let arguments = [
            "s_client",
            "-quiet",
            "-no_ign_eof",
            "-connect",
            &address,
            "-servername",
            "localhost",
            "-CAfile",
            &ca,
            "-verify_return_error",
            "-verify_hostname",
            "localhost",
            version,
        ];
        let mut client = tools::Tool::start("openssl", &arguments);
        client.send(b"sent by openssl\n");
        client.output.containing("sent by openssl");
        let ran = client.ended();
        assert_eq!(ran.code, Some(0), "{ran:?}");
    }
    stage.is_quiet();
}

#[test]
fn gnutls() {
    needs!("gnutls-cli");
    let stage = Stage::echo();
    let (ca, port) = (ca_file(&stage), stage.proxy.address().port().to_string());
    for priority in ["NORMAL:-VERS-ALL:+VERS-TLS1.2", "NORMAL:-VERS-ALL:+VERS-TLS1.3"] {
        let arguments = [
            "--x509cafile",
            &ca,
            "--priority",
            priority,
            "--sni-hostname",
            "localhost",
            "--verify-hostname",
            "localhost",
            "-p",
            &port,
            "127.0.0.1",
        ];
        let mut client = tools::Tool::start("gnutls-cli", &arguments);
        client.output.containing("Simple Client Mode");
        client.send(b"sent by gnutls\n");
        client.output.containing("sent by gnutls");
        let ran = client.ended();
        assert_eq!(ran.code, Some(0), "{ran:?}");
        assert!(ran.all().contains("The certificate is trusted"), "{ran:?}");
    }
    stage.is_quiet();
}

/// Connects, sends, ends its direction, reads to the end; strict about how that end looks.
const PYTHON: &str = r#"
import socket, ssl, sys
port, ca, version = int(sys.argv[1]), sys.argv[2], sys.argv[3]
context = ssl.create_default_context(cafile=ca)
context.minimum_version = context.maximum_version = getattr(ssl.TLSVersion, version)
with socket.create_connection(("127.0.0.1", port), 20) as tcp:
    with context.wrap_socket(tcp, server_hostname="localhost", suppress_ragged_eofs=False) as tls:
        tls.sendall(b"sent by python")
        got = b""
        while len(got) < 14:
            got += tls.recv(100)
        print(tls.version(), got.decode())
        tls.unwrap()
        print("closed cleanly")
"#;

#[test]
fn python() {
    needs!("python3");
    let stage = Stage::echo();
    let (ca, port) = (ca_file(&stage), stage.proxy.address().port().to_string());
    for (version, expected) in [("TLSv1_2", "TLSv1.2"), ("TLSv1_3", "TLSv1.3")] {
        let ran = tools::run("python3", &["-c", PYTHON, &port, &ca, version], b"");
        assert_eq!(ran.code, Some(0), "{ran:?}");
        assert_eq!(ran.output, format!("{expected} sent by python\nclosed cleanly\n"));
    }
    stage.is_quiet();
}

#[test]
fn curl_notices_a_cut_answer() {
    needs!("curl");
    // No length and no chunks: the end of the stream is the only mark of the end, so an abort must not look like one.
    let stage = Stage::new(|peer| {
        peer.read_exactly(16);
        peer.send(b"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\nhalf of the ans");
        peer.reset();
    });
    let (ca, port) = (ca_file(&stage), stage.proxy.address().port());
    let (url, resolve) = (format!("https://localhost:{port}/"), format!("localhost:{port}:127.0.0.1"));
    for version in ["1.2", "1.3"] {
        let arguments = [
            "-sS",
            "--noproxy",
            "*",
            "--max-time",
            "20",
            "--cacert",
            &ca,
            "--resolve",
            &resolve,
            "--tls-max",
            version,
            &url,
        ];
        let ran = tools::run("curl", &arguments, b"");
        assert_ne!(ran.code, Some(0), "an answer that was cut looks whole: {ran:?}");
    }
    stage.counts("backend", "reset", 2);
    stage.is_quiet();
}

#[test]
fn a_standard_transaction_repeated_by_openssl_s_time() {
    needs!("openssl");
    let stage = Stage::with(http_backend(), |config, _| config);
    let (ca, address) = (ca_file(&stage), stage.proxy.address().to_string());
    let arguments = ["s_time", "-connect", &address, "-www", "/", "-new", "-time", "2", "-CAfile", &ca];
    let ran = tools::run("openssl", &arguments, b"");
    assert_eq!(ran.code, Some(0), "{ran:?}");
    let served = stage.proxy.metrics().sum("handfast_connections_accepted_total", &[]);
    assert!(served > 20.0, "{served} only");
    stage.is_quiet();
}
