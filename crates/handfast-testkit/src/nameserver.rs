//! A DNS server (RFC 1035) for A and AAAA over UDP. In: its address and records. Out: answers, or none, until it is dropped.

use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use crate::deadline::thread;

/// Wait for a query before it looks whether it has been dropped.
const POLL: Duration = Duration::from_millis(20);
const A: u16 = 1;
const AAAA: u16 = 28;
const CNAME: u16 = 5;

/// The content of one name, in lower case and without the final dot.
#[derive(Clone, Debug)]
pub enum Record {
    /// Addresses of either family; none: the name exists without.
    Addresses(Vec<IpAddr>),
    /// Another name's records, which are in the answer, too.
    Alias(&'static str),
    /// SERVFAIL.
    Failure,
    /// No answer for IPv6; this address for IPv4.
    SilentForIpv6(IpAddr),
}

/// Records by name; other names do not exist.
pub type Zone = Vec<(&'static str, Record)>;

/// A server that answers until it is dropped.
pub struct Nameserver(Arc<AtomicBool>);

impl Nameserver {
    /// Starts one. `None` as zone: it answers nothing.
    pub fn start(address: SocketAddr, zone: Option<Zone>) -> Self {
        let socket = UdpSocket::bind(address).expect("the address is free");
        socket.set_read_timeout(Some(POLL)).expect("a timeout above zero");
        let stopped = Arc::new(AtomicBool::new(false));
        let flag = Arc::clone(&stopped);
        thread("nameserver", move || {
            let mut query = [0; 512];
            while !flag.load(Ordering::Relaxed) {
                let Ok((length, from)) = socket.recv_from(&mut query) else { continue };
                let answer = zone.as_ref().and_then(|zone| answer(&query[..length], zone));
                if let Some(answer) = answer {
                    socket.send_to(&answer, from).expect("the client is on this machine");
                }
            }
        });
        Self(stopped)
    }
}

impl Drop for Nameserver {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// An answer to a query with one question.
fn answer(query: &[u8], zone: &Zone) -> Option<Vec<u8>> {
    let (name, end) = name(query)?;
    let kind = u16::from_be_bytes([*query.get(end)?, *query.get(end + 1)?]);
    let question = query.get(12..end + 4)?;
    let mut records = Vec::new();
    let mut count = 0u16;
    let mut owner = name;
    let code = loop {
        let Some((_, record)) = zone.iter().find(|(known, _)| *known == owner) else {
            break if count > 0 { 0 } else { 3 };
        };
        match record {
            Record::Failure => break 2,
            Record::SilentForIpv6(_) if kind == AAAA => return None,
            Record::SilentForIpv6(address) => {
                count += add(&mut records, &owner, &[*address], kind);
                break 0;
            }
            Record::Addresses(addresses) => {
                count += add(&mut records, &owner, addresses, kind);
                break 0;
            }
            Record::Alias(other) => {
                push(&mut records, &owner, CNAME, &encoded(other));
                count += 1;
                owner = (*other).to_owned();
            }
        }
    };
    let mut message = query[..2].to_vec();
    message.extend([0x81, 0x80 | code, 0, 1]);
    message.extend(count.to_be_bytes());
    message.extend([0; 4]);
    message.extend(question);
    message.extend(records);
    Some(message)
}

/// The name of the question, and where it ends.
fn name(query: &[u8]) -> Option<(String, usize)> {
    let (mut labels, mut at) = (Vec::new(), 12);
    loop {
        let length = usize::from(*query.get(at)?);
        at += 1;
        if length == 0 {
            return Some((labels.join("."), at));
        }
        let label = query.get(at..at + length)?;
        labels.push(String::from_utf8_lossy(label).to_lowercase());
        at += length;
    }
}

fn encoded(name: &str) -> Vec<u8> {
    let label =
        |label: &str| [&[u8::try_from(label.len()).expect("a short label")], label.as_bytes()].concat();
    name.split('.').flat_map(label).chain([0]).collect()
}

fn add(records: &mut Vec<u8>, owner: &str, addresses: &[IpAddr], kind: u16) -> u16 {
    let mut count = 0;
    for address in addresses {
        let (its_kind, bytes) = match address {
            IpAddr::V4(address) => (A, address.octets().to_vec()),
            IpAddr::V6(address) => (AAAA, address.octets().to_vec()),
        };
        if its_kind == kind {
            push(records, owner, kind, &bytes);
            count += 1;
        }
    }
    count
}

fn push(records: &mut Vec<u8>, owner: &str, kind: u16, data: &[u8]) {
    records.extend(encoded(owner));
    records.extend(kind.to_be_bytes());
    // Class IN; valid for 60 s.
    records.extend([0, 1, 0, 0, 0, 60]);
    records.extend(u16::try_from(data.len()).expect("short data").to_be_bytes());
    records.extend(data);
}
