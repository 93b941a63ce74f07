//! Clients are known by their certificates: who was revoked is refused from then on, resumed sessions too; rules by name
//! and key decide among the others; and who fails may be served elsewhere, without ever getting where the others are.

use std::io::Read;
use std::sync::Arc;

use rustls::{AlertDescription, ClientConfig};
use rustls_pki_types::CertificateRevocationListDer;
use rustls_pki_types::pem::PemObject;

use super::support::certificates::{Authority, Identity, KeyKind};
use super::support::folder::Folder;
use super::support::record::Record;
use super::support::skip::needs;
use super::support::*;

/// A backend that says one word to each client.
fn saying(word: &'static str) -> Backend {
    Backend::start(move |peer| {
        if peer.stream.read(&mut [0; 1]).is_ok_and(|count| count > 0) {
            peer.send(word.as_bytes());
        }
    })
}

/// A service that asks for certificates, and reads changed files quickly.
fn asking(folder: &Folder, backend: &Backend, mode: &str) -> Config {
    let ca = folder.write("ca.pem", &authority().pem);
    Config::empty()
        .text("process", "watch-interval", "200ms")
        .service("web", backend.address)
        .certificate(&folder.write("web.pem", certificates::localhost().combined()))
        .text("service.client-certificates", "mode", mode)
        .text("service.client-certificates", "ca", ca.display())
}

/// Connects and exchanges: what the backend says and whether the session was resumed, or the alert.
fn served(proxy: &Proxy, config: &Arc<ClientConfig>) -> Result<(String, bool), Option<AlertDescription>> {
    let mut client = match Client::try_connect(proxy.address(), config, "localhost") {
        Ok(client) => client,
        Err(Refusal::Alert(alert)) => return Err(Some(alert)),
        Err(other) => panic!("{other:?}"),
    };
    // In TLS 1.3 a client learns of a refusal only after its own last flight.
    if client.try_send(b"x").is_err() {
        return Err(client.read_to_end().alert);
    }
    let mut buffer = [0; 4];
    match client.read(&mut buffer) {
        Ok(count) if count > 0 => {
            let word = String::from_utf8_lossy(&buffer[..count]).into_owned();
            let resumed = client.resumed();
            client.finish();
            Ok((word, resumed))
        }
        _ => Err(client.read_to_end().alert),
    }
}

/// The log names the client by its certificate: the fingerprint.
fn named(record: &Record, name: &str) -> String {
    assert_eq!(record.text("client_subject"), format!("CN={name}"), "{record:?}");
    let (serial, fingerprint) = (record.text("client_serial"), record.text("client_fingerprint"));
    let is_hexadecimal = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_hexdigit());
    assert!(is_hexadecimal(serial) && is_hexadecimal(fingerprint) && fingerprint.len() == 64, "{record:?}");
    fingerprint.to_string()
}

fn real(resumed: bool) -> Result<(String, bool), Option<AlertDescription>> {
    Ok(("real".to_owned(), resumed))
}

fn failed(proxy: &Proxy, reason: &str) -> f64 {
    proxy.metrics().sum("handfast_client_certificates_failed_total", &[("reason", reason)])
}

#[test]
fn who_is_revoked_is_refused_from_then_on() {
    let (folder, backend) = (Folder::new(), saying("real"));
    let [alice, mallory] = ["alice", "mallory"].map(|name| authority().identity_called(name, None));
    let list = folder.write("clients.crl", authority().revocation_list(&[], 30));
    let config =
        asking(&folder, &backend, "require").text("service.client-certificates", "crl", list.display());
    let proxy = Proxy::start(config);
    let clients = Version::BOTH.map(|version| {
        let of = |identity: &Identity| Trust::version(version).showing(identity).config();
        (version, of(&alice), of(&mallory))
    });
    for (version, alice, mallory) in &clients {
        for config in [alice, mallory] {
            assert_eq!(served(&proxy, config), real(false), "{version:?}");
            assert_eq!(served(&proxy, config), real(true), "{version:?}");
        }
    }
    folder.replace("clients.crl", authority().revocation_list(&[&mallory], 30));
    wait_until("the list to be read", || (proxy.reloads().0 > 0.0).then_some(()));
    for (version, alice, mallory) in &clients {
        assert_eq!(
            served(&proxy, alice),
            real(true),
            "{version:?}: a list is no reason to forget the others"
        );
        for _ in 0..3 {
            // Offered a ticket, she gets a full handshake, and with it the alert.
            let refused = Err(Some(AlertDescription::CertificateRevoked));
            assert_eq!(served(&proxy, mallory), refused, "{version:?}: her tickets are worth nothing");
        }
    }
    let record = proxy.record_of("handshake/client/client-certificate");
    assert_eq!(record.text("client_fault"), "revoked");
    let accepted = proxy.record("before", |record| {
        record.text("client_subject") == "CN=mallory" && record.text("client_fault").is_empty()
    });
    assert_eq!(named(&record, "mallory"), named(&accepted, "mallory"), "refused or accepted, it is the same");
    let alice = proxy.record("who was let in", |record| record.text("client_subject") == "CN=alice");
    assert_ne!(named(&record, "mallory"), named(&alice, "alice"));
    assert!(record.detail().contains("was revoked by \"CN=Handfast tests\""), "{record:?}");
    assert!(failed(&proxy, "revoked") >= 6.0);
    let expiry = proxy.metrics().sum("handfast_crl_expires_in_seconds", &[]);
    assert!((29.0..31.0).contains(&(expiry / 86_400.0)), "{expiry}");
    assert_eq!(proxy.metrics().sum("handfast_crl_entries", &[]), 1.0);
}

#[test]
fn a_broken_list_leaves_the_last_good_one() {
    let (folder, backend) = (Folder::new(), saying("real"));
    let [alice, mallory] = ["alice", "mallory"].map(|name| authority().identity_called(name, None));
    let lists = folder.folder("lists");
    let list = authority().revocation_list(&[&mallory], 30);
    folder.write("lists/clients.crl", &list);
    let config =
        asking(&folder, &backend, "require").text("service.client-certificates", "crl", lists.display());
    let proxy = Proxy::start(config);
    let [alice, mallory] =
        [&alice, &mallory].map(|client| Trust::version(Version::Tls13).forgetful().showing(client).config());
    let refused = Err(Some(AlertDescription::CertificateRevoked));
    assert_eq!((served(&proxy, &alice), served(&proxy, &mallory)), (real(false), refused.clone()));
    for (what, text, word) in [("cut", &list[..list.len() / 2], "does not end"), ("empty", "", "is empty")] {
        folder.replace("lists/clients.crl", text);
        wait_until(what, || proxy.status().to_string().contains(word).then_some(()));
        assert_eq!(
            (served(&proxy, &alice), served(&proxy, &mallory)),
            (real(false), refused.clone()),
            "{what}"
        );
        assert_eq!(proxy.metrics().sum("handfast_last_reload_successful", &[]), 0.0);
    }
    folder.replace("lists/clients.crl", authority().revocation_list(&[], 30));
    wait_until("the new list", || (served(&proxy, &mallory) == real(false)).then_some(()));
    assert_eq!(proxy.metrics().sum("handfast_last_reload_successful", &[]), 1.0);
}

/// Nine ways to be no list that can be used, and one of another CA, with the words that name each.
fn broken_lists(good: &str) -> [(&'static str, Vec<u8>, &'static str); 10] {
    let der = CertificateRevocationListDer::from_pem_slice(good.as_bytes()).expect("it is PEM").to_vec();
    let stranger = Authority::new("stranger").revocation_list(&[], 30);
    let flipped = |place: usize| {
        let mut changed = der.clone();
        changed[place] ^= 1;
        changed
    };
    let minute = der.windows(2).position(|pair| pair == [0x17, 13]).expect("a list has a date");
    [
        ("empty", Vec::new(), "is empty"),
        ("text", b"hello\n".to_vec(), "holds no revocation list"),
        ("cut PEM", good.as_bytes()[..good.len() / 2].to_vec(), "does not end"),
        ("bad PEM", b"-----BEGIN X509 CRL-----\n!!!!\n-----END X509 CRL-----\n".to_vec(), "not base64"),
        ("a certificate", authority().certificate.to_vec(), "is damaged"),
        ("cut", der[..der.len() / 2].to_vec(), "is damaged"),
        ("more behind", [&der[..], b"more"].concat(), "4 bytes follow"),
        ("another signature", flipped(der.len() - 1), "not signed by the key"),
        ("another date", flipped(minute + 11), "not signed by the key"),
        ("a stranger's", stranger.into_bytes(), "not among the CAs"),
    ]
}

#[test]
fn a_list_that_is_broken_in_any_way_is_named_and_never_the_laxer_one() {
    let (folder, backend) = (Folder::new(), saying("real"));
    let [alice, mallory] = ["alice", "mallory"].map(|name| authority().identity_called(name, None));
    let good = authority().revocation_list(&[&mallory], 30);
    let list = folder.write("clients.crl", &good);
    let config =
        asking(&folder, &backend, "require").text("service.client-certificates", "crl", list.display());
    // Files are not watched here: each reload is one that was asked for.
    let config = config.text("process", "watch-interval", "1h");
    let proxy = Proxy::start(config);
    let [alice, mallory] =
        [&alice, &mallory].map(|client| Trust::version(Version::Tls13).forgetful().showing(client).config());
    let file = proxy.file.display().to_string();
    for (what, bytes, word) in broken_lists(&good) {
        folder.replace("clients.crl", &bytes);
        assert!(!proxy.reload(), "{what}: the reload fails");
        assert!(proxy.status().to_string().contains(word), "{what}: {}", proxy.status());
        let refused = Err(Some(AlertDescription::CertificateRevoked));
        assert_eq!((served(&proxy, &alice), served(&proxy, &mallory)), (real(false), refused), "{what}");
        if what == "a stranger's" {
            // It may be the list of an intermediate CA: a warning names it, and the CA that has none.
            let ran = tools::handfast(&["check", "-c", &file]);
            assert_eq!(ran.code, Some(0), "{ran:?}");
            assert!(ran.all().contains(word) && ran.all().contains("has no revocation list"), "{ran:?}");
            continue;
        }
        // At a start there is no previous one to use instead.
        for arguments in [["check", "-c", &file], ["proxy", "-c", &file]] {
            let ran = tools::handfast(&arguments);
            assert_eq!(ran.code, Some(2), "{what}: {ran:?}");
            assert!(ran.all().contains(word) && ran.all().contains("clients.crl"), "{what}: {ran:?}");
        }
    }
    folder.replace("clients.crl", authority().revocation_list(&[], 30));
    assert!(proxy.reload());
    assert_eq!(served(&proxy, &mallory), real(false));
}

#[test]
fn rules_decide_by_name_and_say_so() {
    let (folder, backend) = (Folder::new(), saying("real"));
    let web = authority().identity_called("one", Some("spiffe://example.org/web/one"));
    let admin = authority().identity_called("two", Some("spiffe://example.org/admin/two"));
    let mallory = authority().identity_called("mallory", Some("spiffe://example.org/web/mallory"));
    let with = |allow: &str| {
        asking(&folder, &backend, "require").set("service.client-certificates", "allow", allow).set(
            "service.client-certificates",
            "refuse",
            "\"cn:mallory\"",
        )
    };
    let proxy = Proxy::start(with("[\"spiffe://example.org/web/*\"]"));
    for version in Version::BOTH {
        let of = |identity: &Identity| Trust::version(version).showing(identity).config();
        let (web, admin, mallory) = (of(&web), of(&admin), of(&mallory));
        assert_eq!(served(&proxy, &web), real(false), "{version:?}");
        assert_eq!(served(&proxy, &web), real(true), "{version:?}");
        for refused in [&admin, &mallory] {
            assert_eq!(served(&proxy, refused), Err(Some(AlertDescription::AccessDenied)), "{version:?}");
        }
    }
    let let_in = proxy.record("who was let in", |record| record.text("client_subject") == "CN=one");
    assert_eq!(let_in.text("client_rule"), "spiffe://example.org/web/*");
    let refused =
        proxy.record("who was refused by rule", |record| record.text("client_fault") == "refused-by-rule");
    assert!(refused.detail().contains("refuse = \"cn:mallory\""), "{refused:?}");
    let refused =
        proxy.record("a client without permission", |record| record.text("client_fault") == "not-allowed");
    assert!(refused.detail().contains("cn:two, spiffe://example.org/admin/two"), "{refused:?}");
    assert_eq!((failed(&proxy, "not-allowed"), failed(&proxy, "refused-by-rule")), (2.0, 2.0));
    // Other rules, and the ticket of before is worth nothing.
    let kept = Trust::version(Version::Tls13).showing(&web).config();
    assert_eq!(served(&proxy, &kept), real(false));
    proxy.rewrite(with("[\"spiffe://example.org/admin/*\"]"));
    assert!(proxy.reload());
    assert_eq!(served(&proxy, &kept), Err(Some(AlertDescription::AccessDenied)));
    let ran = tools::handfast(&["check", "--explain", "-c", &proxy.file.display().to_string()]);
    assert!(ran.output.contains("only those with spiffe://example.org/admin/*"), "{ran:?}");
    assert!(ran.output.contains("refuses clients with cn:mallory"), "{ran:?}");
}

#[test]
fn who_fails_is_served_elsewhere_and_never_here() {
    let (folder, backend, decoy) = (Folder::new(), saying("real"), saying("fake"));
    let [alice, mallory, bob] =
        ["alice", "mallory", "bob"].map(|name| authority().identity_called(name, None));
    let expired = authority().identity_between(&["client.example"], KeyKind::Ecdsa, 2020, 2021);
    let stranger = Authority::new("stranger").identity_called("alice", None);
    let list = folder.write("clients.crl", authority().revocation_list(&[&mallory], 30));
    let config = asking(&folder, &backend, "require")
        .text("service.client-certificates", "crl", list.display())
        .text("service.client-certificates", "refuse", "cn:bob")
        .text("service.client-certificates", "fallback-backend", decoy.address);
    let proxy = Proxy::start(config);
    let fake = |resumed| Ok(("fake".to_owned(), resumed));
    for version in Version::BOTH {
        let good = Trust::version(version).showing(&alice).config();
        assert_eq!(served(&proxy, &good), real(false), "{version:?}");
        assert_eq!(served(&proxy, &good), real(true), "{version:?}");
        for (identity, reason) in [
            (None, "missing"),
            (Some(&stranger), "unknown-ca"),
            (Some(&expired), "expired"),
            (Some(&mallory), "revoked"),
            (Some(&bob), "refused-by-rule"),
        ] {
            let trust = Trust::version(version);
            let config = identity
                .map_or(trust.config(), |identity| Trust::version(version).showing(identity).config());
            let before = failed(&proxy, reason);
            assert_eq!(served(&proxy, &config), fake(false), "{version:?} {reason}");
            assert_eq!(served(&proxy, &config), fake(true), "{version:?} {reason}: nor with a ticket");
            assert_eq!(failed(&proxy, reason), before + 2.0);
            let record = proxy.record(reason, |record| record.text("client_fault") == reason);
            assert_eq!(record.text("backend"), decoy.address.to_string());
            assert!(!record.text("client_failed").is_empty(), "{record:?}");
            assert_eq!(record.text("client_subject"), "", "nothing is believed of it");
        }
    }
    // Revoked while it holds a ticket of the real service.
    let config = Trust::version(Version::Tls13).showing(&alice).config();
    assert_eq!(served(&proxy, &config), real(false));
    folder.replace("clients.crl", authority().revocation_list(&[&mallory, &alice], 30));
    wait_until("the list to be read", || (proxy.reloads().0 > 0.0).then_some(()));
    assert_eq!(served(&proxy, &config), fake(true));
}

/// Makes files by OpenSSL's own CA: a CA, `alice` and `mallory`, which is revoked.
fn openssl_ca(folder: &Folder) {
    let script = "set -e
        openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -keyout ca.key -out ca.pem -subj /CN=ca -days 30
        printf '[ca]\\ndefault_ca=d\\n[d]\\ndatabase=index.txt\\nserial=serial\\nnew_certs_dir=.\\ncertificate=ca.pem\\nprivate_key=ca.key\\ndefault_md=sha256\\ndefault_days=30\\ndefault_crl_days=30\\npolicy=p\\nx509_extensions=e\\n[p]\\ncommonName=supplied\\n[e]\\nbasicConstraints=CA:FALSE\\n' > ca.cnf
        : > index.txt; echo 01 > serial
        for name in alice mallory; do
            openssl req -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -keyout $name.key -out $name.csr -subj /CN=$name
            openssl ca -batch -config ca.cnf -in $name.csr -out $name.pem -notext
        done
        openssl ca -config ca.cnf -revoke mallory.pem
        openssl ca -config ca.cnf -gencrl -out list.pem
        openssl crl -in list.pem -outform der -out list.der";
    let mut command = std::process::Command::new("sh");
    let ran = tools::run_command(command.current_dir(folder.path()).args(["-c", script]), b"");
    assert_eq!(ran.code, Some(0), "{ran:?}");
}

#[test]
fn real_clients_with_a_real_list() {
    needs!("openssl", "curl", "gnutls-cli");
    for list in ["list.pem", "list.der"] {
        let (folder, backend) = (
            Folder::new(),
            Backend::start(|peer| {
                let _ = peer.stream.read(&mut [0; 4096]);
                peer.send(b"HTTP/1.0 200 OK\r\n\r\nlet in\n");
            }),
        );
        openssl_ca(&folder);
        let config = asking(&folder, &backend, "require")
            .text("service.client-certificates", "ca", folder.file("ca.pem").display())
            .text("service.client-certificates", "crl", folder.file(list).display());
        // `asking` has written another CA there.
        openssl_ca(&folder);
        let server_ca = folder.write("server-ca.pem", &authority().pem).display().to_string();
        let proxy = Proxy::start(config);
        let (address, port) = (proxy.address().to_string(), proxy.address().port());
        let url = format!("https://localhost:{port}/");
        let resolve = format!("localhost:{port}:127.0.0.1");
        for (cn, is_let_in) in [("alice", true), ("mallory", false)] {
            let [certificate, key] =
                ["pem", "key"].map(|end| folder.file(&format!("{cn}.{end}")).display().to_string());
            for version in ["1.2", "1.3"] {
                let tls = format!("--tlsv{version}");
                let ran = tools::run(
                    "curl",
                    &[
                        "-sS",
                        "--noproxy",
                        "*",
                        "--max-time",
                        "20",
                        "--cacert",
                        &server_ca,
                        "--resolve",
                        &resolve,
                        "--cert",
                        &certificate,
                        "--key",
                        &key,
                        &tls,
                        "--tls-max",
                        version,
                        "--http1.0",
                        &url,
                    ],
                    b"",
                );
                assert_eq!(ran.output.contains("let in"), is_let_in, "{cn} {version}: {ran:?}");
                let flag = format!("-tls{}", version.replace('.', "_"));
                let ran = tools::run(
                    "openssl",
                    &[
                        "s_client",
                        "-connect",
                        &address,
                        "-servername",
                        "localhost",
                        "-CAfile",
                        &server_ca,
                        "-cert",
                        &certificate,
                        "-key",
                        &key,
                        "-ign_eof",
                        &flag,
                    ],
                    b"GET / HTTP/1.0\r\n\r\n",
                );
                assert_eq!(ran.all().contains("let in"), is_let_in, "{cn} {version}: {ran:?}");
                assert_eq!(ran.all().contains("certificate revoked"), !is_let_in, "{cn} {version}: {ran:?}");
                let priority = format!("NORMAL:-VERS-ALL:+VERS-TLS{version}");
                let port = port.to_string();
                let ran = tools::run(
                    "gnutls-cli",
                    &[
                        "--x509cafile",
                        &server_ca,
                        "--x509certfile",
                        &certificate,
                        "--x509keyfile",
                        &key,
                        "--priority",
                        &priority,
                        "--sni-hostname",
                        "localhost",
                        "--verify-hostname",
                        "localhost",
                        "-p",
                        &port,
                        "127.0.0.1",
                    ],
                    b"GET / HTTP/1.0\r\n\r\n",
                );
                assert_eq!(ran.all().contains("let in"), is_let_in, "{cn} {version}: {ran:?}");
            }
        }
    }
}

#[test]
fn a_certificate_that_signed_itself_is_a_pin_on_every_side() {
    needs!("openssl");
    for ca in ["TRUE", "FALSE"] {
        let (folder, backend) = (Folder::new(), saying("real"));
        let make = |name: &str| {
            let key = folder.file(&format!("{name}.key")).display().to_string();
            let own = folder.file(&format!("{name}.pem")).display().to_string();
            let constraints = format!("basicConstraints=critical,CA:{ca}");
            tools::self_signed("localhost", &key, &own, &["-addext", &constraints]);
            (own, key)
        };
        let ((server, server_key), (client, client_key), (other, other_key)) =
            (make("server"), make("client"), make("other"));
        let config = Config::empty()
            .service("web", backend.address)
            .certificate(std::path::Path::new(&server))
            .text("service", "key", &server_key)
            .text("service.client-certificates", "mode", "require")
            .text("service.client-certificates", "ca", &client);
        let proxy = Proxy::start(config);
        let address = proxy.address().to_string();
        for (own, key, is_let_in) in [(&client, &client_key, true), (&other, &other_key, false)] {
            let ran = tools::run(
                "openssl",
                &[
                    "s_client",
                    "-quiet",
                    "-connect",
                    &address,
                    "-servername",
                    "localhost",
                    "-CAfile",
                    &server,
                    "-verify_return_error",
                    "-cert",
                    own,
                    "-key",
                    key,
                ],
                b"x",
            );
            assert_eq!(ran.output.contains("real"), is_let_in, "CA:{ca}: {ran:?}");
            let loaded = tools::handfast(&[
                "load",
                &address,
                "--handshake-only",
                "-c",
                "1",
                "-d",
                "1s",
                "--sni",
                "localhost",
                "--ca",
                &server,
                "--client-certificate",
                own,
                "--client-key",
                key,
            ]);
            // 3: it worked, and this machine is too busy for figures.
            assert_eq!(matches!(loaded.code, Some(0 | 3)), is_let_in, "CA:{ca}: {loaded:?}");
        }
        let checked = tools::handfast(&["check", "-c", &proxy.file.display().to_string()]);
        assert_eq!(checked.code, Some(0), "CA:{ca}: {checked:?}");
        assert_eq!(checked.all().contains("exactly this certificate"), ca == "FALSE", "{checked:?}");
    }
}
