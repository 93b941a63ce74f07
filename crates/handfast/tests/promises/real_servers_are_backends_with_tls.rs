//! Real servers are backends with TLS: nginx, HAProxy, stunnel and hitch, with TLS 1.2 and 1.3, in full and resumed, with a
//! certificate of ours where they ask for one and a protocol where they know one, every byte both ways, and a clean close.
//!
//! `scripts/interop-backends` does the same with more of them, and prints a table.

use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr};
use std::path::PathBuf;

use super::proxies_understand_each_others_headers::{NGINX_STREAM, haproxy, nginx, wait_until_listening};
use super::support::certificates::{KeyKind, localhost};
use super::support::client::dial;
use super::support::folder::Folder;
use super::support::record::Record;
use super::support::servers::address_of_ones_own;
use super::support::skip::{needs, skipped};
use super::support::tools::Tool;
use super::support::*;

/// Bytes each way.
const BULK: usize = 10_000_000;
/// No protocol of the web: no server treats it specially.
const PROTOCOL: &str = "mqtt";

/// Parts of every server here: in front of an echo, with the certificate for `localhost`.
struct Parts {
    folder: Folder,
    echo: Backend,
    address: SocketAddr,
    pem: PathBuf,
    ca: PathBuf,
    version: Version,
}

impl Parts {
    fn new(version: Version) -> Self {
        let folder = Folder::new();
        let pem = folder.write("both.pem", localhost().combined());
        let ca = folder.write("ca.pem", &authority().pem);
        Self { folder, echo: Backend::echo(), address: address_of_ones_own(), pem, ca, version }
    }

    /// The version as OpenSSL's programs write it.
    fn version(&self) -> &'static str {
        match self.version {
            Version::Tls12 => "TLSv1.2",
            Version::Tls13 => "TLSv1.3",
        }
    }
}

/// Features that a server lacks.
#[derive(Clone, Copy, Default)]
struct Lacks {
    /// Agree on a protocol.
    protocol: bool,
    /// Say that it ends: its FIN comes without close_notify.
    close_notify: bool,
}

/// Plain clients of ours, to a server as the backend.
fn is_a_backend(server: &str, lacks: Lacks, start: impl Fn(&Parts) -> Tool) {
    for version in Version::BOTH {
        let parts = Parts::new(version);
        let _server = start(&parts);
        let own = authority().identity(&["client.example"], KeyKind::Ecdsa);
        let section = "service.backend-tls";
        let config = Config::empty()
            .set("process", "threads", 1)
            .service("web", parts.address)
            .set("service", "client-tls", false)
            .text(section, "ca", parts.ca.display())
            .text(section, "name", "localhost");
        let without = Proxy::start(&config);
        let config = config
            .text(section, "certificate", parts.folder.write("own.pem", own.combined()).display())
            .set(section, "alpn", format!("[\"{PROTOCOL}\"]"))
            .text(section, "missing-close-notify", if lacks.close_notify { "end" } else { "abort" });
        let proxy = Proxy::start(config);
        for resumed in [false, true] {
            let record = bulk(&proxy);
            let tls = record.value("backend_tls");
            let seen = (&tls["version"], tls["resumed"].as_bool(), tls["alpn"].as_str());
            let protocol = (!lacks.protocol).then_some(PROTOCOL);
            assert_eq!(seen, (&parts.version().into(), Some(resumed), protocol), "{server} {record:?}");
            assert!(record.reason().ends_with("/finished"), "{server} {version:?}: {record:?}");
            let is_reported = record.detail().contains("without close_notify");
            assert_eq!(is_reported, lacks.close_notify, "{server} {version:?}: {record:?}");
            let carried = (record.number("bytes_to_backend"), record.number("bytes_to_client"));
            assert_eq!(carried, (BULK as u64, BULK as u64), "{server} {version:?}: {record:?}");
        }
        let mut back = Vec::new();
        // Notified by an alert, by a reset that overtakes it, or (nginx) by a clean close right after the handshake.
        let _ = dial(without.address()).and_then(|mut client| {
            client.write_all(b"x")?;
            client.shutdown(Shutdown::Write)?;
            client.read_to_end(&mut back)
        });
        assert!(back.is_empty(), "{server} wants a certificate");
    }
}

/// One connection with as much in both directions, and what the log says of it.
fn bulk(proxy: &Proxy) -> Record {
    let sent: Vec<u8> = pattern::piece(0, 50_000).iter().copied().cycle().take(BULK).collect();
    let mut client = dial(proxy.address()).expect("it listens");
    let own = client.local_addr().expect("it is bound").to_string();
    let mut writer = client.try_clone().expect("a second handle");
    let mut back = vec![0; BULK];
    std::thread::scope(|scope| {
        scope.spawn(|| writer.write_all(&sent).expect("it is taken"));
        client.read_exact(&mut back).expect("it comes back");
    });
    assert!(back == sent, "what comes back is what was sent");
    // Some of them end both directions with one: only now.
    client.shutdown(Shutdown::Write).expect("it is open");
    assert_eq!(client.read(&mut [0; 1]).expect("a clean end"), 0);
    drop(client);
    proxy.record(&own, |record| record.text("client") == own)
}

#[test]
fn behind_nginx() {
    needs!("nginx");
    if !std::path::Path::new(NGINX_STREAM).exists() {
        skipped!("nginx's stream module is not installed (libnginx-mod-stream)");
    }
    is_a_backend("nginx", Lacks { close_notify: true, ..Lacks::default() }, |parts| {
        let (pem, ca) = (parts.pem.display(), parts.ca.display());
        let config = format!(
            "load_module {NGINX_STREAM};\nevents {{ }}\nstream {{\n  server {{\n    listen {} ssl;\n    proxy_pass {};\n    \
             ssl_certificate {pem};\n    ssl_certificate_key {pem};\n    ssl_protocols {};\n    ssl_alpn {PROTOCOL};\n    \
             ssl_session_cache shared:sessions:1m;\n    ssl_verify_client on;\n    ssl_client_certificate {ca};\n  }}\n}}\n",
            parts.address,
            parts.echo.address,
            parts.version()
        );
        nginx(&parts.folder, parts.address, &config)
    });
}

#[test]
fn behind_haproxy() {
    needs!("haproxy");
    is_a_backend("HAProxy", Lacks::default(), |parts| {
        let version = parts.version();
        let sections = format!(
            "frontend front\n    mode tcp\n    bind {} ssl crt {} ssl-min-ver {version} ssl-max-ver {version} alpn {PROTOCOL} \
             verify required ca-file {}\n    default_backend back\nbackend back\n    mode tcp\n    server echo {}\n",
            parts.address,
            parts.pem.display(),
            parts.ca.display(),
            parts.echo.address
        );
        haproxy(&parts.folder, parts.address, &sections)
    });
}

#[test]
fn behind_stunnel() {
    needs!("stunnel4");
    is_a_backend("stunnel", Lacks { protocol: true, ..Lacks::default() }, |parts| {
        let config = format!(
            "foreground = yes\npid =\nsyslog = no\n[front]\naccept = {}\nconnect = {}\ncert = {}\nsslVersion = {}\nverifyChain = \
             yes\nCAfile = {}\n",
            parts.address,
            parts.echo.address,
            parts.pem.display(),
            parts.version(),
            parts.ca.display()
        );
        let config = parts.folder.write("stunnel.conf", config).display().to_string();
        let tool = Tool::start("stunnel4", &[&config]);
        wait_until_listening(&tool, parts.address);
        tool
    });
}

#[test]
fn behind_hitch() {
    needs!("hitch");
    is_a_backend("hitch", Lacks::default(), |parts| {
        let config = format!(
            "frontend = \"[{}]:{}\"\nbackend = \"[127.0.0.1]:{}\"\npem-file = \"{}\"\nalpn-protos = \"{PROTOCOL}\"\ntls-protos = {}\n\
             client-verify = required\nclient-verify-ca = \"{}\"\nworkers = 1\ndaemon = off\n{}",
            parts.address.ip(),
            parts.address.port(),
            parts.echo.address.port(),
            parts.pem.display(),
            parts.version(),
            parts.ca.display(),
            // It refuses to work as root.
            if rustix::process::geteuid().is_root() {
                "user = \"nobody\"\ngroup = \"nogroup\"\n"
            } else {
                ""
            }
        );
        let config = parts.folder.write("hitch.conf", config).display().to_string();
        let tool = Tool::start("hitch", &[&format!("--config={config}")]);
        wait_until_listening(&tool, parts.address);
        tool
    });
}
