//! Every failed connection is named: the access log gives the true step, side and cause of each way in which a connection can
//! fail, and never an errno without a word.
//!
//! Each fault is provoked in a network of the test's own, and has shown to have happened before the log is judged by it.

use std::io::Write;
use std::net::TcpStream;
use std::os::unix::net::{UnixListener, UnixStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use super::support::network::{Rules, in_a_network_of_its_own, must, set_parameter};
use super::support::record::Record;
use super::support::skip::skipped;
use super::support::*;

/// One way to fail, and what is to be said of it.
struct Cell {
    /// Its name: of the service, and of the rule.
    name: &'static str,
    /// The nftables verdict for packets to the backend; `None` where no packet is needed to fail.
    verdict: Option<&'static str>,
    /// `step/side/cause`.
    reason: &'static str,
    /// Text that the record's detail contains.
    detail: &'static str,
}

const fn cell(name: &'static str, verdict: &'static str, reason: &'static str, detail: &'static str) -> Cell {
    Cell { name, verdict: Some(verdict), reason, detail }
}

const fn plain(name: &'static str, reason: &'static str) -> Cell {
    Cell { name, verdict: None, reason, detail: "" }
}

/// The record of the one connection that a service had.
fn record_of(proxy: &Proxy, service: &str) -> Record {
    proxy.record(&format!("the connection of {service}"), |record| record.text("service") == service)
}

/// Describes the difference of a record from the expected one.
fn judge(cell: &Cell, record: &Record) -> Option<String> {
    let right = record.reason() == cell.reason && record.detail().contains(cell.detail);
    (!right).then(|| format!("{}: expected {} ({}), got {record:?}", cell.name, cell.reason, cell.detail))
}

fn assert_all_right(wrong: &[String]) {
    assert!(wrong.is_empty(), "{} are named wrongly:\n{}", wrong.len(), wrong.join("\n"));
}

/// A client of a service that will not be served: it may see its handshake end or not, but never a clean end after it.
fn try_in_vain(proxy: &Proxy, service: &str) {
    let config = Trust::version(Version::Tls13).config();
    if let Ok(mut client) = Client::try_connect(proxy.address_of(service), &config, "localhost") {
        let ending = client.read_to_end();
        assert!(!ending.close_notify, "{service}: {ending:?}");
    }
}

/// A configuration with a service for each cell.
fn config(folder: &folder::Folder, services: &[(&str, String)], limits: &[(&str, &str)]) -> Config {
    let certificate = folder.write("web.pem", certificates::localhost().combined());
    services.iter().fold(Config::empty(), |config, (name, backend)| {
        let config = config.service(name, backend).certificate(&certificate);
        limits.iter().fold(config, |config, (key, value)| config.text("service.limits", key, value))
    })
}

/// Answers to a SYN, as routers and firewalls give them (RFC 792 and RFC 4443 number the messages).
const ANSWERS: [Cell; 13] = [
    cell("dropped", "drop", "connect/backend/connect-timeout", ""),
    cell("reset", "reject with tcp reset", "connect/backend/refused", ""),
    cell(
        "port",
        "reject with icmp type port-unreachable",
        "connect/backend/refused",
        "ICMP type 3 code 3 from 127.0.0.1",
    ),
    cell(
        "host",
        "reject with icmp type host-unreachable",
        "connect/backend/host-unreachable",
        "ICMP type 3 code 1 from 127.0.0.1",
    ),
    cell(
        "net",
        "reject with icmp type net-unreachable",
        "connect/backend/network-unreachable",
        "ICMP type 3 code 0 from 127.0.0.1",
    ),
    cell(
        "net-prohibited",
        "reject with icmp type net-prohibited",
        "connect/backend/prohibited",
        "ICMP type 3 code 9 from 127.0.0.1",
    ),
    cell(
        "host-prohibited",
        "reject with icmp type host-prohibited",
        "connect/backend/prohibited",
        "ICMP type 3 code 10 from 127.0.0.1",
    ),
    cell(
        "admin-prohibited",
        "reject with icmp type admin-prohibited",
        "connect/backend/prohibited",
        "ICMP type 3 code 13 from 127.0.0.1",
    ),
    cell(
        "protocol",
        "reject with icmp type prot-unreachable",
        "connect/backend/prohibited",
        "ICMP type 3 code 2 from 127.0.0.1",
    ),
    cell("v6-route", "reject with icmpv6 type no-route", "connect/backend/network-unreachable", ""),
    cell("v6-address", "reject with icmpv6 type addr-unreachable", "connect/backend/host-unreachable", ""),
    cell("v6-prohibited", "reject with icmpv6 type admin-prohibited", "connect/backend/prohibited", ""),
    cell("v6-port", "reject with icmpv6 type port-unreachable", "connect/backend/refused", ""),
];

/// Each of these has a listener: only the answers differ.
fn listening(cell: &Cell) -> Backend {
    if cell.name.starts_with("v6") {
        let listener = std::net::TcpListener::bind("[::1]:0").expect("loopback has a free port");
        Backend::on(listener, |peer| peer.read_to_end())
    } else {
        Backend::echo()
    }
}

#[test]
fn by_what_the_network_answers() {
    in_a_network_of_its_own!();
    let backends: Vec<Backend> = ANSWERS.iter().map(listening).collect();
    let rules = Rules::new();
    for (cell, backend) in ANSWERS.iter().zip(&backends) {
        let verdict = cell.verdict.expect("each of these is an answer");
        rules.add(cell.name, &format!("tcp dport {}", backend.address.port()), verdict);
    }
    let named = |(cell, backend): (&Cell, &Backend)| (cell.name, backend.address.to_string());
    let services: Vec<(&str, String)> = ANSWERS.iter().zip(&backends).map(named).collect();
    let folder = folder::Folder::new();
    // Linux keeps no ICMPv6 message, and does not announce one that comes while connect(2) still runs, as on loopback: the
    // answer to the second SYN, a second later, is the one that counts.
    let proxy = Proxy::start(config(&folder, &services, &[("connect", "4s")]));
    let wrong = Mutex::new(Vec::new());
    crowd::for_each(ANSWERS.len(), ANSWERS.len(), |number| {
        let (cell, backend) = (&ANSWERS[number], &backends[number]);
        try_in_vain(&proxy, cell.name);
        let record = record_of(&proxy, cell.name);
        assert!(rules.applied(cell.name) > 0, "{}: the rule was never applied: {record:?}", cell.name);
        assert_eq!(backend.accepted(), 0, "{}", cell.name);
        wrong.lock().expect("no thread panics while holding it").extend(judge(cell, &record));
    });
    assert_all_right(&wrong.into_inner().expect("no thread panicked while holding it"));
}

#[test]
fn by_an_answer_that_the_kernel_keeps_to_itself() {
    in_a_network_of_its_own!();
    let prohibited = cell("v6", "reject with icmpv6 type admin-prohibited", "connect/backend/prohibited", "");
    let backend = listening(&prohibited);
    let rules = Rules::new();
    rules.add(
        "v6",
        &format!("tcp dport {}", backend.address.port()),
        "reject with icmpv6 type admin-prohibited",
    );
    let folder = folder::Folder::new();
    let services = [("v6", backend.address.to_string())];
    // Too short for a second SYN: SO_ERROR alone has the answer to the first.
    let proxy = Proxy::start(config(&folder, &services, &[("connect", "300ms")]));
    try_in_vain(&proxy, "v6");
    let record = record_of(&proxy, "v6");
    assert!(rules.applied("v6") > 0, "the rule was never applied: {record:?}");
    assert_all_right(&Vec::from_iter(judge(&prohibited, &record)));
}

#[test]
fn by_what_this_machine_knows() {
    in_a_network_of_its_own!();
    must("ip route add unreachable 192.0.2.1");
    must("ip route add prohibit 192.0.2.2");
    must("ip route add blackhole 192.0.2.3");
    must("ip route add prohibit 2001:db8::2");
    let folder = folder::Folder::new();
    let path = |name: &str| folder.file(name).display().to_string();
    let unix = |name: &str| format!("unix:{}", path(name));
    // The file stays when its listener is gone.
    drop(UnixListener::bind(path("deserted")).expect("the folder is ours"));
    let full = UnixListener::bind(path("full")).expect("the folder is ours");
    rustix::net::listen(&full, 0).expect("a listener may listen again");
    let _filling = UnixStream::connect(path("full")).expect("the first one waits in the queue");
    let table = [
        (plain("closed-port", "connect/backend/refused"), Backend::refusing().to_string()),
        (plain("route-unreachable", "connect/backend/host-unreachable"), "192.0.2.1:80".into()),
        (plain("route-prohibit", "connect/backend/prohibited"), "192.0.2.2:80".into()),
        (plain("route-blackhole", "connect/backend/network-unreachable"), "192.0.2.3:80".into()),
        (plain("route-none", "connect/backend/network-unreachable"), "198.51.100.1:80".into()),
        (plain("v6-route-prohibit", "connect/backend/prohibited"), "[2001:db8::2]:80".into()),
        (plain("v6-route-none", "connect/backend/network-unreachable"), "[2001:db8::1]:80".into()),
        (plain("unix-missing", "connect/backend/path-missing"), unix("missing")),
        (plain("unix-deserted", "connect/backend/refused"), unix("deserted")),
        (plain("unix-full", "connect/backend/backlog-full"), unix("full")),
    ];
    let services: Vec<(&str, String)> =
        table.iter().map(|(cell, backend)| (cell.name, backend.clone())).collect();
    let proxy = Proxy::start(config(&folder, &services, &[]));
    let mut wrong = Vec::new();
    for (cell, _) in &table {
        try_in_vain(&proxy, cell.name);
        wrong.extend(judge(cell, &record_of(&proxy, cell.name)));
    }
    assert_all_right(&wrong);
}

#[test]
fn by_source_ports_that_are_all_in_use() {
    in_a_network_of_its_own!();
    let backend = Backend::echo();
    let folder = folder::Folder::new();
    let proxy = Proxy::start(config(&folder, &[("web", backend.address.to_string())], &[]));
    if !set_parameter("net.ipv4.ip_local_port_range", "40000 40001") {
        skipped!("the range of ports cannot be set here");
    }
    let _both: Vec<TcpStream> =
        (0..2).map(|_| client::dial(backend.address).expect("there are two ports")).collect();
    let third = client::dial(backend.address).expect_err("there is no third port");
    assert_eq!(third.kind(), std::io::ErrorKind::AddrNotAvailable);
    // Towards the proxy the same two ports are still free: ports are scarce for each destination by itself.
    try_in_vain(&proxy, "web");
    let cell = plain("web", "connect/local/out-of-ports");
    assert_all_right(&Vec::from_iter(judge(&cell, &record_of(&proxy, "web"))));
}

#[test]
fn by_the_kernel_that_stops_dialling() {
    in_a_network_of_its_own!();
    if !set_parameter("net.ipv4.tcp_syn_retries", "1") {
        skipped!("how often a SYN is sent cannot be set here");
    }
    let backend = Backend::echo();
    let rules = Rules::new();
    rules.add("dropped", &format!("tcp dport {}", backend.address.port()), "drop");
    let folder = folder::Folder::new();
    let web = [("web", backend.address.to_string())];
    let proxy = Proxy::start(config(&folder, &web, &[("connect", "9s")]));
    try_in_vain(&proxy, "web");
    let record = record_of(&proxy, "web");
    assert_all_right(&Vec::from_iter(judge(&plain("web", "connect/backend/connect-timed-out"), &record)));
    let sent = rules.applied("dropped");
    assert!(sent > 1 && record.detail() == format!("{sent} SYNs unanswered"), "{sent} were sent: {record:?}");
}

/// Verdicts for packets to the backend, or from the client, of an established connection; the name's first word tells which. Linux keeps
/// no ICMP message for such a connection, only its errno, and reports that when it gives up.
const LATER: [Cell; 8] = [
    cell("backend-dark", "drop", "relay/backend/unacknowledged", "retransmission"),
    cell("backend-silent", "drop", "relay/backend/keepalive-unanswered", "probe"),
    cell("backend-reset", "reject with tcp reset", "relay/backend/reset", ""),
    cell("backend-host", "reject with icmp type host-unreachable", "relay/backend/host-unreachable", ""),
    cell("backend-net", "reject with icmp type net-unreachable", "relay/backend/network-unreachable", ""),
    cell("backend-port", "reject with icmp type port-unreachable", "relay/backend/port-unreachable", ""),
    cell("client-dark", "drop", "relay/client/unacknowledged", "retransmission"),
    cell("client-silent", "drop", "relay/client/keepalive-unanswered", "probe"),
];

/// A backend that echoes one greeting, and sends more on request.
fn send_when(may_send: &Arc<AtomicBool>) -> Backend {
    let may_send = Arc::clone(may_send);
    Backend::start(move |peer| {
        let greeting = peer.read_exactly(GREETING.len());
        peer.send(&greeting);
        while !may_send.load(Ordering::Acquire) {
            if backend::is_over(&peer.stream) {
                return;
            }
            pause(Duration::from_millis(5));
        }
        peer.send(b"into the dark");
        peer.read_to_end();
    })
}

const GREETING: &[u8] = b"it stands";

#[test]
fn by_what_becomes_of_a_path_that_worked() {
    in_a_network_of_its_own!();
    let may_send: Vec<Arc<AtomicBool>> = LATER.iter().map(|_| Arc::default()).collect();
    let backends: Vec<Backend> = may_send.iter().map(send_when).collect();
    let rules = Rules::new();
    let named = |(cell, backend): (&Cell, &Backend)| (cell.name, backend.address.to_string());
    let services: Vec<(&str, String)> = LATER.iter().zip(&backends).map(named).collect();
    let folder = folder::Folder::new();
    // A user timeout overrules the number of probes (tcp(7), TCP_USER_TIMEOUT), so keep-alive needs both to be short.
    let limits = [("tcp-user-timeout", "1s"), ("tcp-keepalive", "1s")];
    let proxy = Proxy::start(config(&folder, &services, &limits));
    let wrong = Mutex::new(Vec::new());
    crowd::for_each(LATER.len(), LATER.len(), |number| {
        let (cell, backend) = (&LATER[number], &backends[number]);
        let mut client =
            Client::connect(proxy.address_of(cell.name), &Trust::version(Version::Tls13).config());
        client.echo(GREETING);
        // A peer that could acknowledge and is not known to have done so is another case.
        network::all_acknowledged(proxy.address_of(cell.name).port());
        let from_client = cell.name.starts_with("client");
        let to = if from_client { proxy.address_of(cell.name) } else { backend.address };
        let verdict = cell.verdict.expect("each of these concerns packets");
        rules.add(cell.name, &format!("tcp dport {}", to.port()), verdict);
        // Keep-alive is for those who say nothing; the others speak, the backend to a client who cannot acknowledge it.
        if from_client {
            may_send[number].store(!cell.name.ends_with("silent"), Ordering::Release);
        } else if !cell.name.ends_with("silent") {
            client.send(b"into the dark");
        }
        let record = record_of(&proxy, cell.name);
        assert!(rules.applied(cell.name) > 0, "{}: the rule was never applied: {record:?}", cell.name);
        if !from_client {
            let ending = client.read_to_end();
            assert!(ending.is_abort(), "{}: {ending:?}", cell.name);
        }
        wrong.lock().expect("no thread panics while holding it").extend(judge(cell, &record));
    });
    assert_all_right(&wrong.into_inner().expect("no thread panicked while holding it"));
}

#[test]
fn by_a_client_that_acknowledges_and_reads_nothing() {
    let endless = Backend::start(|peer| {
        peer.send(GREETING);
        let _ = peer.stream.set_write_timeout(Some(DEADLINE));
        while peer.stream.write_all(&[b's'; 65_536]).is_ok() {}
    });
    let folder = folder::Folder::new();
    let services = [("web", endless.address.to_string())];
    let proxy = Proxy::start(config(&folder, &services, &[("tcp-user-timeout", "1s")]));
    let mut client = Client::connect(proxy.address_of("web"), &Trust::version(Version::Tls13).config());
    client.read_exactly(GREETING.len());
    let cell = Cell { name: "web", verdict: None, reason: "relay/client/zero-window", detail: "not sent" };
    assert_all_right(&Vec::from_iter(judge(&cell, &record_of(&proxy, "web"))));
}

#[test]
fn by_what_a_peer_or_the_administrator_does() {
    in_a_network_of_its_own!();
    let resets = Backend::start(|peer| {
        peer.read_exactly(GREETING.len());
        peer.reset();
    });
    let echo = Backend::echo();
    let greets = Backend::start(|peer| {
        peer.read_exactly(GREETING.len());
        peer.send(GREETING);
        peer.read_to_end();
    });
    let services = [
        ("backend-resets", resets.address.to_string()),
        ("client-resets", echo.address.to_string()),
        ("client-truncates", greets.address.to_string()),
        ("client-closes", greets.address.to_string()),
        ("backend-destroyed", echo.address.to_string()),
        ("client-destroyed", echo.address.to_string()),
    ];
    let folder = folder::Folder::new();
    let proxy = Proxy::start(config(&folder, &services, &[]));
    let trust = Trust::version(Version::Tls13).config();
    let standing = |service: &str| {
        let mut client = Client::connect(proxy.address_of(service), &trust);
        client.echo(GREETING);
        client
    };
    let mut wrong = Vec::new();
    let mut expect =
        |service, reason| wrong.extend(judge(&plain(service, reason), &record_of(&proxy, service)));

    let mut client = Client::connect(proxy.address_of("backend-resets"), &trust);
    client.send(GREETING);
    expect("backend-resets", "relay/backend/reset");
    standing("client-resets").reset();
    expect("client-resets", "relay/client/reset");
    let mut client = standing("client-truncates");
    client.send(b"not answered");
    client.fin();
    expect("client-truncates", "relay/client/truncated");
    standing("client-closes").fin();
    expect("client-closes", "relay/client/no-close-notify");

    // The proxy's own sockets: the one that the backend is at the other end of, and the one at the listener's port.
    let _client = standing("backend-destroyed");
    let destroyed = must(&format!("ss -K -tn state established dport = :{}", echo.address.port()));
    if !destroyed.contains(&echo.address.port().to_string()) {
        assert_all_right(&wrong);
        skipped!("this kernel destroys no sockets");
    }
    expect("backend-destroyed", "relay/local/destroyed");
    let _client = standing("client-destroyed");
    let port = proxy.address_of("client-destroyed").port();
    must(&format!("ss -K -tn state established sport = :{port}"));
    expect("client-destroyed", "relay/local/destroyed");
    assert_all_right(&wrong);
}
