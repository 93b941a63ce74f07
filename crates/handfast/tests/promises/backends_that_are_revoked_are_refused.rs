//! A backend whose certificate was revoked is refused by the OCSP response that it sends (`backend-tls.revocation`), in TLS 1.2 and 1.3,
//! with the reason in the log; where a response is required, so is one that sends none, one without an end or another one's. Against OpenSSL's server.

use std::io::{Read, Write};

use super::support::client::dial;
use super::support::folder::Folder;
use super::support::servers::address_of_ones_own;
use super::support::skip::needs;
use super::support::tools::{self, Tool};
use super::support::*;

/// An authority, two certificates by it, and responses about them.
struct Files(Folder);

impl Files {
    fn openssl(&self, words: &str) {
        let words = words.replace('@', &format!("{}/", self.0.path().display()));
        let ran = tools::run("openssl", &words.split(' ').collect::<Vec<_>>(), b"");
        assert_eq!(ran.code, Some(0), "openssl {words}: {}", ran.all());
    }

    /// The authority's response about a certificate. `line`: what its index has of it; `days`: how long it is good.
    fn response(&self, about: &str, to: &str, line: &str, more: &str) {
        self.0.write("index.txt", format!("{line}\n"));
        self.openssl(&format!("ocsp -issuer @ca.pem -cert @{about}.pem -reqout @request"));
        self.openssl(&format!(
            "ocsp -index @index.txt -CA @ca.pem -rsigner @ca.pem -rkey @ca.key -reqin @request -respout @{to}{more}"
        ));
    }

    fn new() -> Self {
        let files = Self(Folder::new());
        files.openssl(
            "req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -keyout @ca.key -out @ca.pem -subj /CN=ca -days 30",
        );
        files.0.write("extensions", "subjectAltName=DNS:localhost\n");
        for (name, serial) in [("server", 3), ("other", 4)] {
            files.openssl(&format!(
                "req -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -keyout @{name}.key -out @{name}.csr -subj /CN={name}"
            ));
            files.openssl(&format!(
                "x509 -req -in @{name}.csr -CA @ca.pem -CAkey @ca.key -set_serial {serial} -days 30 -extfile @extensions -out @{name}.pem"
            ));
        }
        let valid = |serial: &str| format!("V\t351231000000Z\t\t{serial}\tunknown\t/CN=server");
        let revoked = "R\t351231000000Z\t260101000000Z\t03\tunknown\t/CN=server";
        files.response("server", "good", &valid("03"), " -ndays 5");
        files.response("server", "revoked", revoked, " -ndays 5");
        // It would be good for ever.
        files.response("server", "endless", &valid("03"), "");
        files.response("other", "another", &valid("04"), " -ndays 5");
        files
    }
}

/// The outcome of one connection: an answer, or the reason and its detail.
fn outcome(proxy: &Proxy) -> Result<(), String> {
    let before = proxy.records().len();
    let mut answer = [0; 6];
    let served = dial(proxy.address()).and_then(|mut stream| {
        stream.write_all(b"hello\n")?;
        stream.read_exact(&mut answer)
    });
    if served.is_ok() && answer == *b"olleh\n" {
        return Ok(());
    }
    let record = wait_until("its line", || proxy.records().get(before).cloned());
    Err(format!("{}: {}", record.reason(), record.detail()))
}

#[test]
fn by_the_response_that_it_sends() {
    needs!("openssl");
    let files = Files::new();
    let ca = files.0.file("ca.pem").display().to_string();
    for version in ["-tls1_2", "-tls1_3"] {
        for (response, if_sent, required) in [
            ("good", None, None),
            ("revoked", Some("says that the certificate was revoked on 2026-01-01"), Some("was revoked on")),
            // Without nextUpdate it is good for a day.
            ("endless", None, None),
            ("another", None, Some("is about another certificate")),
            ("", None, Some("no OCSP response came with it, and one is required")),
        ] {
            let address = address_of_ones_own();
            let at = |name: &str| files.0.file(name).display().to_string();
            let mut words = format!(
                "s_server -accept {address} -cert {} -key {} -rev -quiet {version}",
                at("server.pem"),
                at("server.key")
            );
            if !response.is_empty() {
                words.push_str(&format!(" -status_file {}", at(response)));
            }
            let _server = Tool::start("openssl", &words.split(' ').collect::<Vec<_>>());
            wait_until("the server to listen", || dial(address).ok());
            for (rule, expected) in [("off", None), ("stapled", if_sent), ("staple-required", required)] {
                let config = Config::empty()
                    .service("web", address)
                    .set("service", "client-tls", false)
                    .text("service.backend-tls", "ca", &ca)
                    .text("service.backend-tls", "name", "localhost")
                    .text("service.backend-tls", "revocation", rule);
                let proxy = Proxy::start(config);
                // Twice: a session that is resumed, where there is one, was verified.
                for _ in 0..2 {
                    let seen = outcome(&proxy);
                    let what = format!("{version} {response:?} {rule}: {seen:?}");
                    match expected {
                        None => assert_eq!(seen, Ok(()), "{what}"),
                        Some(words) => {
                            let message = seen.expect_err(&what);
                            assert!(message.starts_with("connect/backend/backend-certificate: "), "{what}");
                            assert!(message.contains(words), "{what}");
                        }
                    }
                }
            }
        }
    }
}
