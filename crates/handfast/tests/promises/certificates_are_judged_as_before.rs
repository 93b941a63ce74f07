//! Certificates that an old authority made are judged as by stunnel: of X.509 version 1, with the name in the subject alone, and below an
//! intermediate authority that clients send and whose revocation list is configured. The same files for both programs, the same clients.

use std::net::SocketAddr;

use super::support::backend::{Backend, Peer};
use super::support::client::dial;
use super::support::deadline::wait_until;
use super::support::folder::Folder;
use super::support::proxy::Proxy;
use super::support::servers::address_of_ones_own;
use super::support::skip::needs;
use super::support::tools::{self, Tool};

/// Files that OpenSSL makes in a folder; `@` is the folder.
struct Files(Folder);

impl Files {
    fn path(&self, text: &str) -> String {
        text.replace('@', &format!("{}/", self.0.path().display()))
    }

    fn openssl(&self, words: &str) {
        let words = self.path(words);
        let ran = tools::run("openssl", &words.split(' ').collect::<Vec<_>>(), b"");
        assert_eq!(ran.code, Some(0), "openssl {words}: {}", ran.all());
    }

    /// A key and a request.
    fn request(&self, name: &str, subject: &str) {
        self.openssl(&format!(
            "req -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -keyout @{name}.key -out @{name}.csr -subj {subject}"
        ));
    }

    /// A certificate; without extensions it is of version 1.
    fn sign(&self, name: &str, by: &str, serial: u8, extensions: &str) {
        let mut words = format!(
            "x509 -req -in @{name}.csr -CA @{by}.pem -CAkey @{by}.key -set_serial {serial} -days 30 -out @{name}.pem"
        );
        if !extensions.is_empty() {
            self.0.write("extensions", extensions);
            words.push_str(" -extfile @extensions");
        }
        self.openssl(&words);
    }

    /// A revocation list by `by` of the certificates with these serial numbers.
    fn list(&self, by: &str, revoked: &[u8]) -> String {
        let line = |serial: &u8| format!("R\t351231000000Z\t260101000000Z\t{serial:02}\tunknown\t/CN=x\n");
        self.0.write("index.txt", revoked.iter().map(line).collect::<String>());
        self.0.write("crlnumber", "01\n");
        let config = "[ca]\ndefault_ca = d\n[d]\ndatabase = @index.txt\ncrlnumber = @crlnumber\ndefault_md = sha256\ndefault_crl_days = 30\n";
        self.0.write("ca.conf", self.path(config));
        self.openssl(&format!(
            "ca -config @ca.conf -gencrl -cert @{by}.pem -keyfile @{by}.key -out @{by}.crl"
        ));
        std::fs::read_to_string(self.0.file(&format!("{by}.crl"))).expect("it was written")
    }

    fn new() -> Self {
        let files = Self(Folder::new());
        files.openssl(
            "req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -keyout @root.key -out @root.pem -subj /CN=root -days 30",
        );
        files.request("middle", "/CN=middle");
        files.sign("middle", "root", 2, "basicConstraints=critical,CA:TRUE\nkeyUsage=keyCertSign,cRLSign\n");
        let leaf = "basicConstraints=CA:FALSE\n";
        for (name, subject, by, serial, extensions) in [
            ("server", "/CN=server.test", "root", 3, "subjectAltName=DNS:server.test\n"),
            ("old", "/CN=old.test", "root", 4, ""),
            ("old-below", "/CN=old.test", "middle", 5, ""),
            ("named", "/CN=named.test", "root", 6, leaf),
            ("other", "/CN=named.test", "root", 7, "subjectAltName=DNS:other.test\n"),
            ("good", "/CN=good.test", "middle", 8, leaf),
            ("bad", "/CN=bad.test", "middle", 9, leaf),
        ] {
            files.request(name, subject);
            files.sign(name, by, serial, extensions);
        }
        let lists = files.list("root", &[]) + &files.list("middle", &[9]);
        files.0.write("lists.pem", lists);
        files
    }

    /// Returns true if a client with this certificate receives an answer.
    fn is_served(&self, address: SocketAddr, client: &str) -> bool {
        let target = address.to_string();
        let words = self.path(&format!(
            "s_client -quiet -connect {target} -cert @{client}.pem -key @{client}.key -cert_chain @middle.pem"
        ));
        let mut tool = Tool::start("openssl", &words.split(' ').collect::<Vec<_>>());
        tool.send(b"hello\n");
        // Its end is not waited for where it is served: stunnel has a minute for that.
        wait_until("an answer or an end", || {
            let is_served = tool.output.so_far().iter().any(|line| line == "served");
            if is_served { Some(true) } else { tool.has_ended().then_some(false) }
        })
    }
}

/// Answers each connection with one line.
fn backend() -> Backend {
    Backend::start(|peer: &mut Peer| {
        let mut buffer = [0; 64];
        if matches!(std::io::Read::read(&mut peer.stream, &mut buffer), Ok(1..)) {
            let _ = std::io::Write::write_all(&mut peer.stream, b"served\n");
        }
    })
}

/// Runs both programs on one configuration; what becomes of each client must be the same, and as it is written.
fn compare(files: &Files, config: &str, mut seen: impl FnMut(SocketAddr) -> Vec<bool>, expected: &[bool]) {
    let (there, here) = (address_of_ones_own(), address_of_ones_own());
    let text = |address: SocketAddr| files.path(config).replace("LISTEN", &address.to_string());
    let first = "foreground = yes\npid =\nsyslog = no\n";
    let old = files.0.write("old.conf", format!("{first}{}", text(there))).display().to_string();
    let _stunnel = Tool::start("stunnel4", &[&old]);
    wait_until("stunnel to listen", || dial(there).ok());
    let ours = files.0.write("ours.conf", text(here)).display().to_string();
    let ran = tools::handfast(&["import", "stunnel", &ours]);
    assert_eq!(ran.code, Some(0), "{}", ran.all());
    let proxy = Proxy::start(format!("{}\n[admin]\nlisten = \"127.0.0.1:0\"\n", ran.output));
    let both = [seen(there), seen(proxy.address())];
    assert_eq!(both, [expected, expected], "stunnel, then ours\n{config}\n{}", ran.output);
}

#[test]
fn of_clients() {
    needs!("stunnel4");
    needs!("openssl");
    let (files, backend) = (Files::new(), backend());
    let service = format!(
        "[web]\naccept = LISTEN\nconnect = {}\ncert = @server.pem\nkey = @server.key\n",
        backend.address
    );
    for (more, clients) in [
        (
            "verifyChain = yes\nCAfile = @root.pem\n",
            &[("old", true), ("old-below", true), ("good", true), ("bad", true)][..],
        ),
        ("verifyPeer = yes\nCAfile = @old.pem\n", &[("old", true), ("good", false)]),
        (
            "verifyChain = yes\nCAfile = @root.pem\nCRLfile = @lists.pem\n",
            &[("good", true), ("bad", false), ("old", true), ("old-below", true)],
        ),
        (
            "verifyChain = yes\nCAfile = @root.pem\ncheckHost = named.test\n",
            &[("named", true), ("other", false), ("good", false)],
        ),
        ("verifyChain = yes\nCAfile = @root.pem\ncheckHost = old.test\n", &[("old", true), ("named", false)]),
    ] {
        let seen = |address| clients.iter().map(|(client, _)| files.is_served(address, client)).collect();
        let expected: Vec<bool> = clients.iter().map(|(_, is_served)| *is_served).collect();
        compare(&files, &format!("{service}{more}"), seen, &expected);
    }
}

#[test]
fn of_backends() {
    needs!("stunnel4");
    needs!("openssl");
    let files = Files::new();
    for (certificate, name, is_good) in [
        ("named", "named.test", true),
        ("named", "x.test", false),
        ("other", "named.test", false),
        ("other", "other.test", true),
        ("old", "old.test", true),
        ("old", "x.test", false),
    ] {
        let address = address_of_ones_own();
        let words = files.path(&format!(
            "s_server -accept {address} -cert @{certificate}.pem -key @{certificate}.key -rev -quiet"
        ));
        let _server = Tool::start("openssl", &words.split(' ').collect::<Vec<_>>());
        wait_until("the server to listen", || dial(address).ok());
        let config = format!(
            "[out]\nclient = yes\naccept = LISTEN\nconnect = {address}\nverifyChain = yes\nCAfile = @root.pem\ncheckHost = {name}\n"
        );
        let seen = |address: SocketAddr| {
            let Ok(mut stream) = dial(address) else { return vec![false] };
            let _ = std::io::Write::write_all(&mut stream, b"hello\n");
            let mut answer = [0; 6];
            vec![std::io::Read::read_exact(&mut stream, &mut answer).is_ok() && answer == *b"olleh\n"]
        };
        compare(&files, &config, seen, &[is_good]);
    }
}
