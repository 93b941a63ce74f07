//! Another Handfast that has the admin address: its process, and the request for the address.
//!
//! In: the address that could not be bound. Out: the process that answers there, if it is a Handfast. A restart without a
//! gap starts the new process beside the old one; this is how the new one knows that it is not there by accident, and gets
//! the admin address as soon as the old one stops.

use std::io;
use std::time::Duration;

use super::ask::ask;
use handfast_config::model::Address;

/// For connect, request and answer together.
const TIMEOUT: Duration = Duration::from_secs(2);
/// Bytes of an answer that are read.
const MAX_ANSWER_BYTES: usize = 4096;

/// The `Server` field of our answers, up to the process number.
const PRODUCT: &str = concat!("handfast/", env!("CARGO_PKG_VERSION"), " (process ");

/// Another Handfast.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Neighbour {
    /// The number of its process.
    pub process: u32,
}

/// The `Server` field of each answer: product, version, process (RFC 9110 §10.2.4).
pub(super) fn server_field() -> String {
    format!("{PRODUCT}{})", std::process::id())
}

/// The Handfast that answers at `address`, of whatever version; `None` when no process does, or another program.
///
/// **Cost**: waits for at most two seconds; not for the threads that serve.
pub fn neighbour(address: &Address) -> Option<Neighbour> {
    let answer = head(address, "GET /live").ok()?;
    let (product, rest) = field(&answer, "server")?.split_once(" (process ")?;
    let process = rest.strip_suffix(')')?.parse().ok()?;
    product.starts_with("handfast/").then_some(Neighbour { process })
}

/// Requests the address from the process that listens on it, for a process with this number of threads. Returns whether it gave the
/// address up, which it does once it is stopping.
///
/// **Errors**: no process answers there.
pub fn ask_for_address(address: &Address, threads: usize) -> io::Result<bool> {
    head(address, &format!("POST /hand-over?threads={threads}"))
        .map(|answer| answer.starts_with("HTTP/1.1 202 "))
}

/// The value of a field of an answer's head.
fn field<'a>(answer: &'a str, name: &str) -> Option<&'a str> {
    let lines = answer.lines().take_while(|line| !line.is_empty());
    let mut fields = lines.filter_map(|line| line.split_once(':'));
    fields.find(|(known, _)| known.eq_ignore_ascii_case(name)).map(|(_, value)| value.trim())
}

/// Sends a request and reads the head of the answer: its body might never end.
fn head(address: &Address, request: &str) -> io::Result<String> {
    let request =
        format!("{request} HTTP/1.1\r\nHost: localhost\r\nContent-Length: 0\r\nConnection: close\r\n\r\n");
    let whole = |answer: &[u8]| answer.windows(4).any(|end| end == b"\r\n\r\n");
    let answer = ask(address, &request, TIMEOUT, MAX_ANSWER_BYTES, whole)?;
    Ok(String::from_utf8_lossy(&answer).into_owned())
}
