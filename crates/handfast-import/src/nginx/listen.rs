//! `listen`: which servers share an address.

use super::grammar::Directive;
use super::state::Import;
use crate::address::Address;
use crate::note::Fate;

/// Options of an address, from all of its servers together.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Socket {
    pub(super) address: String,
    pub(super) port: Option<u16>,
    pub(super) has_tls: bool,
    pub(super) has_http2: bool,
    pub(super) has_header: bool,
    /// Positions of the servers, the default one first.
    pub(super) servers: Vec<usize>,
    has_default: bool,
}

/// The addresses of all servers, in the order of the file.
pub(super) fn sockets(servers: &[&Directive], import: &mut Import<'_>) -> Vec<Socket> {
    let mut sockets: Vec<Socket> = Vec::new();
    for (index, server) in servers.iter().enumerate() {
        let listens: Vec<_> = server.inner().iter().filter(|inner| inner.name == "listen").collect();
        if listens.is_empty() {
            put(&mut sockets, index, "0.0.0.0:80".into(), Some(80), &[]);
        }
        for listen in listens {
            let Some((address, port)) = address(listen) else {
                import.note(listen, Fate::Refused, "expected an address, a port or `unix:` and a path");
                continue;
            };
            put(&mut sockets, index, address, port, &listen.arguments[1..]);
            let is_over_udp = |word: &&String| matches!(word.as_str(), "udp" | "quic");
            if let Some(word) = listen.arguments.iter().find(is_over_udp) {
                let effect = format!("{word}: UDP is not served");
                import.note(listen, Fate::Refused, effect);
            }
        }
    }
    sockets
}

fn put(sockets: &mut Vec<Socket>, index: usize, address: String, port: Option<u16>, words: &[String]) {
    let at = sockets.iter().position(|socket| socket.address == address).unwrap_or_else(|| {
        sockets.push(Socket { address, port, ..Socket::default() });
        sockets.len() - 1
    });
    let socket = &mut sockets[at];
    let has = |word: &str| words.iter().any(|written| written == word);
    socket.has_tls |= has("ssl");
    socket.has_http2 |= has("http2");
    socket.has_header |= has("proxy_protocol");
    if has("default_server") || has("default") {
        socket.has_default = true;
        socket.servers.retain(|known| *known != index);
        socket.servers.insert(0, index);
    } else if !socket.servers.contains(&index) {
        socket.servers.push(index);
    }
}

/// nginx listens on IPv4 alone where no host is written, and on IPv6 alone with `[::]`, unless `ipv6only=off`.
fn address(listen: &Directive) -> Option<(String, Option<u16>)> {
    let text = listen.argument(0);
    if let Some(path) = text.strip_prefix("unix:") {
        return Some((format!("unix:{path}"), None));
    }
    let has_port = text.rsplit(':').next().is_some_and(|port| port.parse::<u16>().is_ok());
    let text = if !has_port { format!("{text}:80") } else { text.to_owned() };
    let address = Address::parse(&text.replace('*', "0.0.0.0"))?;
    let Address::Tcp(_, port) = &address else { return None };
    let is_both = text.starts_with("[::]") && listen.arguments.iter().any(|word| word == "ipv6only=off");
    let listener = if is_both { format!("*:{port}") } else { address.listener("0.0.0.0")? };
    Some((listener, Some(*port)))
}

/// Addresses with the same servers, which become one service.
pub(super) fn groups(sockets: Vec<Socket>) -> Vec<Vec<Socket>> {
    let mut groups: Vec<Vec<Socket>> = Vec::new();
    for socket in sockets {
        let is_like = |other: &Socket| {
            other.servers == socket.servers
                && other.port == socket.port
                && (other.has_tls, other.has_http2, other.has_header)
                    == (socket.has_tls, socket.has_http2, socket.has_header)
        };
        match groups.iter_mut().find(|group| is_like(&group[0])) {
            Some(group) => group.push(socket),
            None => groups.push(vec![socket]),
        }
    }
    groups
}

impl Import<'_> {
    /// The listeners of a service. `[::]` takes IPv4 too in Handfast, so `*` is written for both.
    pub(super) fn addresses(&mut self, server: &Directive, sockets: &[Socket]) -> Vec<String> {
        let has = |address: String| sockets.iter().any(|socket| socket.address == address);
        let mut addresses = Vec::new();
        for Socket { address, port, .. } in sockets {
            let port = port.unwrap_or_default();
            let address = match address.rsplit_once(':') {
                Some(("0.0.0.0", _)) if has(format!("[::]:{port}")) => format!("*:{port}"),
                Some(("[::]", _)) => {
                    if !has(format!("0.0.0.0:{port}")) {
                        let effect = "it takes IPv4 too";
                        self.note_of(server, &format!("listen {address}"), Fate::Approximated, effect);
                    }
                    format!("*:{port}")
                }
                _ => address.clone(),
            };
            if !addresses.contains(&address) {
                addresses.push(address);
            }
        }
        addresses
    }
}
