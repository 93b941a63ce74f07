//! A DNS server for one experiment: it answers, answers late, reports that there is no such name, fails, or is silent.
//!
//! In: a network, and the handling of queries from now on. Out: answers by UDP on the port of DNS (RFC 1035), for IPv4 addresses alone.

use std::collections::VecDeque;
use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU32, AtomicUsize, Ordering};
use std::thread::{Builder, JoinHandle};
use std::time::{Duration, Instant};

use handfast_lab::sockets::Place;

use crate::error::{CaseError, lab};

/// Content of /etc/resolv.conf for the lab's processes: a server of the network of the lab. An answer is waited for longer than
/// [`LATE_DELAY`].
pub(crate) const CONFIGURATION: &str = "nameserver 127.0.0.1\noptions timeout:3 attempts:2\n";
/// Delay of a late answer.
pub(crate) const LATE_DELAY: Duration = Duration::from_millis(1_500);
/// Lifetime of an answer in seconds.
const LIFETIME: u8 = 1;
/// Interval between checks if an answer is due.
const POLL_INTERVAL: Duration = Duration::from_millis(20);

/// Handling of queries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum QueryHandling {
    /// With the address.
    Known,
    /// The same, late.
    Late,
    /// There is no such name (NXDOMAIN).
    Unknown,
    /// The server fails (SERVFAIL).
    Failing,
    /// Not at all.
    Silent,
}

#[derive(Default)]
struct Control {
    stopped: AtomicBool,
    manner: AtomicU8,
    address: AtomicU32,
    /// Questions met in this manner.
    queries: AtomicUsize,
}

/// It answers until it is dropped.
pub(crate) struct Resolver {
    control: Arc<Control>,
    thread: Option<JoinHandle<()>>,
}

impl Resolver {
    /// Begins to answer on the proxy's host.
    pub(crate) fn start(place: &Place, answers: QueryHandling, address: Ipv4Addr) -> Result<Self, CaseError> {
        let socket = place.here(|| UdpSocket::bind((Ipv4Addr::LOCALHOST, 53)))?;
        let socket = socket.map_err(lab("open a socket for names"))?;
        socket.set_read_timeout(Some(POLL_INTERVAL))?;
        let control = Arc::new(Control::default());
        let ours = Arc::clone(&control);
        let serve = move || serve(&socket, &ours);
        let thread = Builder::new().name("lab-names".into()).spawn(serve).map_err(lab("start a thread"))?;
        let resolver = Self { control, thread: Some(thread) };
        resolver.answer(answers, address);
        Ok(resolver)
    }

    /// From now on questions are met so.
    pub(crate) fn answer(&self, answers: QueryHandling, address: Ipv4Addr) {
        self.control.address.store(address.to_bits(), Ordering::Release);
        self.control.manner.store(answers as u8, Ordering::Release);
        self.control.queries.store(0, Ordering::Release);
    }

    /// Returns the number of queries since.
    pub(crate) fn query_count(&self) -> usize {
        self.control.queries.load(Ordering::Acquire)
    }
}

impl Drop for Resolver {
    fn drop(&mut self) {
        self.control.stopped.store(true, Ordering::Release);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

fn serve(socket: &UdpSocket, control: &Control) {
    let mut late: VecDeque<(Instant, Vec<u8>, SocketAddr)> = VecDeque::new();
    let mut question = [0; 512];
    while !control.stopped.load(Ordering::Acquire) {
        if let Ok((length, from)) = socket.recv_from(&mut question) {
            let manner = control.manner.load(Ordering::Acquire);
            let address = Ipv4Addr::from_bits(control.address.load(Ordering::Acquire));
            control.queries.fetch_add(1, Ordering::AcqRel);
            let answer = answer(&question[..length], manner, address);
            let wait = if manner == QueryHandling::Late as u8 { LATE_DELAY } else { Duration::ZERO };
            late.extend(answer.map(|answer| (Instant::now() + wait, answer, from)));
        }
        while late.front().is_some_and(|(due, ..)| *due <= Instant::now()) {
            if let Some((_, answer, to)) = late.pop_front() {
                let _ = socket.send_to(&answer, to);
            }
        }
    }
}

/// Returns the answer to a query (RFC 1035 §4.1); `None` for anything that is none.
fn answer(question: &[u8], manner: u8, address: Ipv4Addr) -> Option<Vec<u8>> {
    if manner == QueryHandling::Silent as u8 {
        return None;
    }
    // The name: labels to the empty one; then its type and class.
    let mut end = 12;
    while *question.get(end)? != 0 {
        end += 1 + usize::from(question[end]);
    }
    let queried = question.get(12..end + 5)?;
    let code = match manner {
        _ if manner == QueryHandling::Unknown as u8 => 3,
        _ if manner == QueryHandling::Failing as u8 => 2,
        _ => 0,
    };
    let for_ipv4 = question[end + 1..end + 3] == [0, 1];
    let found = u8::from(code == 0 && for_ipv4);
    // A response, recursion wished for and there; one question, as many answers as were found.
    let mut response = [&question[..2], &[0x81, 0x80 | code, 0, 1, 0, found, 0, 0, 0, 0], queried].concat();
    if found == 1 {
        // The name of the question, an address, in this class, for this time.
        response.extend([0xc0, 12, 0, 1, 0, 1, 0, 0, 0, LIFETIME, 0, 4]);
        response.extend(address.octets());
    }
    Some(response)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_an_answer_to_one_type_of_question() {
        let question =
            |kind: u8| [&[7, 9, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0, 1, b'a', 0, 0][..], &[kind, 0, 1]].concat();
        let address = Ipv4Addr::new(198, 19, 0, 5);
        let response = answer(&question(1), QueryHandling::Known as u8, address).expect("an answer");
        assert!(
            response.starts_with(&[7, 9, 0x81, 0x80, 0, 1, 0, 1])
                && response.ends_with(&[0, 4, 198, 19, 0, 5])
        );
        let response = answer(&question(28), QueryHandling::Known as u8, address).expect("an answer");
        assert_eq!((response[7], response.len()), (0, 19));
        let response = answer(&question(1), QueryHandling::Unknown as u8, address).expect("an answer");
        assert_eq!((response[3], response[7]), (0x83, 0));
        assert_eq!(answer(&question(1), QueryHandling::Silent as u8, address), None);
        assert_eq!(answer(&[0; 12], QueryHandling::Known as u8, address), None);
    }
}
