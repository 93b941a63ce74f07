//! A certificate authority with ACME (Pebble) and its DNS server: each on a separate address. In: settings. Out: its directory. It
//! rejects good nonces and forgets authorizations now and then, as its environment asks.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

use crate::certificates::{KeyKind, authority};
use crate::folder::Folder;
use crate::http;
use crate::lines::Lines;
use crate::servers::address_of_ones_own;

/// The program.
pub const PEBBLE: &str = "pebble";
/// Its DNS server.
pub const DNS: &str = "pebble-challtestsrv";

/// A running authority; it is killed when this is dropped.
pub struct Pebble {
    folder: Folder,
    address: SocketAddr,
    /// The address at which it expects answers over TLS.
    pub tls: SocketAddr,
    /// The address at which it expects answers over plain HTTP.
    pub http: SocketAddr,
    /// Address at which records are set.
    pub dns_control: SocketAddr,
    dns: Child,
    pebble: Option<Child>,
    more: String,
}

impl Pebble {
    /// Starts it, with these lines more in its settings (JSON, each with a comma at its end).
    pub fn start(more: &str) -> Self {
        let mut made = Self::prepare(more);
        made.go();
        made
    }

    /// The same without the authority itself: nothing answers at its directory yet.
    pub fn prepare(more: &str) -> Self {
        let (address, tls, http) = (address_of_ones_own(), address_of_ones_own(), address_of_ones_own());
        // One host for both: the authority knows one address of each name.
        let http = SocketAddr::new(tls.ip(), http.port());
        let (dns, dns_control) = (address_of_ones_own(), address_of_ones_own());
        let folder = Folder::new();
        let identity = authority().identity(&[&address.ip().to_string()], KeyKind::Ecdsa);
        folder.write("web.pem", &identity.certificate_pem);
        folder.write("web.key", &identity.key_pem);
        folder.write("ca.pem", &authority().pem);
        folder.write("dns", dns.to_string());
        let mut child = Command::new(DNS);
        child.args(["-http01", "", "-https01", "", "-tlsalpn01", "", "-doh", "", "-defaultIPv6", ""]);
        child.args(["-dnsserver", &dns.to_string(), "-management", &dns_control.to_string()]);
        child.args(["-defaultIPv4", &tls.ip().to_string()]);
        let child = child.stdout(Stdio::null()).stderr(Stdio::null()).stdin(Stdio::null()).spawn();
        let dns = child.expect("it is installed");
        Self { folder, address, tls, http, dns_control, dns, pebble: None, more: more.to_owned() }
    }

    /// Starts the authority, with no memory of what it did before.
    pub fn go(&mut self) {
        let (tls, http) = (self.tls.port(), self.http.port());
        let management = SocketAddr::new(self.address.ip(), address_of_ones_own().port());
        let file = |name: &str| self.folder.file(name).display().to_string();
        let settings = format!(
            "{{\"pebble\": {{\"listenAddress\": \"{}\", \"managementListenAddress\": \"{management}\", \"certificate\": \"{}\", \
             \"privateKey\": \"{}\", \"httpPort\": {http}, \"tlsPort\": {tls}, \"ocspResponderURL\": \"\", {} \
             \"keyAlgorithm\": \"ecdsa\", \"retryAfter\": {{\"authz\": 1, \"order\": 1}}, \"profiles\": {{\"default\": \
             {{\"description\": \"d\", \"validityPeriod\": 7776000}}, \"short\": {{\"description\": \"s\", \"validityPeriod\": \
             518400}}}}}}}}",
            self.address,
            file("web.pem"),
            file("web.key"),
            self.more,
        );
        let config = self.folder.write("pebble.json", settings);
        let dns = std::fs::read_to_string(self.folder.file("dns")).expect("it was written");
        let mut command = Command::new(PEBBLE);
        command.args(["-config", &config.display().to_string(), "-dnsserver", &dns]);
        let environment =
            [("PEBBLE_VA_NOSLEEP", "1"), ("PEBBLE_WFE_NONCEREJECT", "5"), ("PEBBLE_AUTHZREUSE", "50")];
        command.envs(environment).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut child = command.spawn().expect("it is installed");
        let output = Lines::collect("pebble", child.stdout.take().expect("it is piped"));
        output.containing("ACME directory available");
        self.pebble = Some(child);
    }

    /// Kills the authority; its DNS goes on.
    pub fn fail(&mut self) {
        if let Some(mut child) = self.pebble.take() {
            let _ = child.kill();
            let _ = child.wait();
        }
    }

    /// The URL of its directory.
    pub fn directory(&self) -> String {
        format!("https://{}/dir", self.address)
    }

    /// The authority of its server's certificate.
    pub fn ca(&self) -> PathBuf {
        self.folder.file("ca.pem")
    }

    /// Sets a TXT record.
    pub fn set_record(&self, host: &str, value: &str) {
        let body = serde_json::json!({ "host": host, "value": value }).to_string();
        let answer = http::post(self.dns_control, "/set-txt", &body);
        assert_eq!(answer.status, 200, "{answer:?}");
    }
}

impl Drop for Pebble {
    fn drop(&mut self) {
        self.fail();
        let _ = self.dns.kill();
        let _ = self.dns.wait();
    }
}
