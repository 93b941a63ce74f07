//! Counters continue: the draining process sends its counters to the one that took over, until it ends.
//!
//! Each update is complete, so a lost one costs nothing. When the receiving process has ended, they go to the one that serves by then.

use std::io;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use rustix::net::{RecvFlags, recv};

use super::protocol::{MESSAGE_TIMEOUT, Opening, UpgradeRequest, describe, receive, send, set_timeout};
use super::successor::in_thread;
use handfast_observe::metrics::{ProcessCounts, Registry};

const SEND_INTERVAL: Duration = Duration::from_secs(1);
/// … or less often: computing them takes at most this fraction (1/20) of a thread's time.
const SHARE: u32 = 20;
/// … or less often, by at most this number of doublings, after sending failed.
const MAX_DOUBLINGS: u32 = 6;
/// Bytes of one message; in JSON they are some more.
const MAX_MESSAGE_BYTES: usize = 4 << 20;
/// Bytes of one update, whatever the number of its messages: 10,000 services in ten processes are far below.
const MAX_UPDATE_BYTES: usize = 256 << 20;

/// At the head of a message, before the name of the process: whether others follow that belong to the same update.
const HEADS: [&str; 2] = ["last ", "more "];

#[derive(Debug)]
pub(super) struct CounterSender {
    goes_on: SyncSender<()>,
    thread: JoinHandle<()>,
}

impl CounterSender {
    /// Starts a separate thread; `path` is the upgrade socket, where a later process is reached.
    pub(super) fn begin(to: UnixStream, path: PathBuf, registry: Arc<Registry>) -> io::Result<Self> {
        let (goes_on, ends) = sync_channel(1);
        let send = move || send_until_end(Listener { stream: to, path }, &registry, &ends);
        let thread = in_thread("counts", send)?;
        Ok(Self { goes_on, thread })
    }

    /// Sends the final counters. **Cost**: waits until the other process has taken them, at most ten seconds for each message.
    pub(super) fn end(self) {
        drop(self.goes_on);
        // It does not panic; and if it did, its numbers would be missing, not this process's end.
        let _ = self.thread.join();
    }
}

struct Listener {
    stream: UnixStream,
    path: PathBuf,
}

impl Listener {
    /// Returns true if the peer has ended. It sends nothing itself.
    fn is_gone(&self) -> bool {
        let received = recv(&self.stream, &mut [0_u8; 1], RecvFlags::PEEK | RecvFlags::DONTWAIT);
        !matches!(received, Err(rustix::io::Errno::AGAIN))
    }

    fn send(&self, counts: &[ProcessCounts]) -> io::Result<()> {
        set_timeout(&self.stream, MESSAGE_TIMEOUT)?;
        send_whole(&self.stream, counts)
    }

    /// Connects to the process that serves by now, if there is one.
    fn next(&mut self) -> io::Result<()> {
        let stream = UnixStream::connect(&self.path)?;
        set_timeout(&stream, MESSAGE_TIMEOUT)?;
        send(&stream, &Opening::new(UpgradeRequest::Counters))?;
        self.stream = stream;
        Ok(())
    }
}

fn send_until_end(mut to: Listener, registry: &Registry, ends: &Receiver<()>) {
    let (mut last_sent, mut in_vain, mut is_last) = (None, 0, false);
    loop {
        let begun = Instant::now();
        if last_sent.is_some() && to.is_gone() {
            // Then no process has what it was sent.
            last_sent = None;
            in_vain = if to.next().is_ok() { 0 } else { in_vain + 1 };
        }
        let counts = registry.counts();
        if last_sent.as_ref() != Some(&counts) {
            // One that has gone is missed the next time.
            let _ = to.send(&counts);
            last_sent = Some(counts);
        }
        if is_last {
            return;
        }
        let pause = SEND_INTERVAL.max(begun.elapsed() * SHARE) * (1 << MAX_DOUBLINGS.min(in_vain));
        is_last = ends.recv_timeout(pause) != Err(RecvTimeoutError::Timeout);
    }
}

fn send_whole(to: &UnixStream, processes: &[ProcessCounts]) -> io::Result<()> {
    for (at, (process, counts)) in processes.iter().enumerate() {
        let mut left = counts.as_str();
        loop {
            let (part, rest) = left.split_at(left.floor_char_boundary(MAX_MESSAGE_BYTES));
            let more = !rest.is_empty() || at + 1 < processes.len();
            send(to, &format!("{}{process}\n{part}", HEADS[usize::from(more)]))?;
            left = rest;
            if left.is_empty() {
                break;
            }
        }
    }
    Ok(())
}

fn receive_whole(from: &UnixStream) -> io::Result<Vec<ProcessCounts>> {
    let mut whole: Vec<ProcessCounts> = Vec::new();
    let mut room = MAX_UPDATE_BYTES;
    loop {
        let message: String = receive(from)?;
        room = room.checked_sub(message.len().max(1)).ok_or(io::ErrorKind::FileTooLarge)?;
        let (head, counts) = message.split_once('\n').ok_or(io::ErrorKind::InvalidData)?;
        let more = head.strip_prefix(HEADS[1]);
        let process = more.or(head.strip_prefix(HEADS[0])).ok_or(io::ErrorKind::InvalidData)?;
        match whole.last_mut() {
            Some((known, all)) if *known == process => all.push_str(counts),
            _ => whole.push((process.to_owned(), counts.to_owned())),
        }
        if more.is_none() {
            return Ok(whole);
        }
    }
}

/// Continues from the counters of the previous process, and starts a thread that receives its later ones.
///
/// **Cost**: waits for the first of them.
pub(super) fn take_up(from: UnixStream, process: u32, registry: Arc<Registry>) {
    let receiver = CounterReceiver::new(from, registry);
    let taken = receiver.next().and_then(|()| receiver.go_on(()));
    if let Err(error) = taken {
        let why = describe(&error);
        tracing::warn!("process {process} did not send its counters: {why}; counters start at zero");
    }
}

/// Starts a thread that reads the counters of a process whose successor has ended; `place` is free again when that thread ends.
pub(super) fn receive_counters(from: UnixStream, registry: Arc<Registry>, place: impl Send + 'static) {
    if let Err(error) = CounterReceiver::new(from, registry).go_on(place) {
        tracing::warn!("read counters from the previous process: {error}");
    }
}

struct CounterReceiver {
    number: u64,
    from: UnixStream,
    registry: Arc<Registry>,
}

impl CounterReceiver {
    fn new(from: UnixStream, registry: Arc<Registry>) -> Self {
        static HEARINGS: AtomicU64 = AtomicU64::new(0);
        Self { number: HEARINGS.fetch_add(1, Ordering::Relaxed), from, registry }
    }

    fn next(&self) -> io::Result<()> {
        self.registry.receive_counts(self.number, receive_whole(&self.from)?);
        Ok(())
    }

    fn go_on(self, place: impl Send + 'static) -> io::Result<()> {
        // It sends when there is something to send.
        self.from.set_read_timeout(None)?;
        let receive_all = move || {
            while self.next().is_ok() {}
            self.registry.process_ended(self.number);
            drop(place);
        };
        in_thread("counts", receive_all).map(drop)
    }
}

#[cfg(test)]
mod tests {
    use rustix::net::sockopt::{Timeout, set_socket_timeout};

    use super::*;

    #[test]
    fn counters_sent_in_parts_arrive_whole() {
        let (to, from) = UnixStream::pair().expect("there are descriptors");
        let counts = "1\tservice\twéb\taccepted\n".repeat(MAX_MESSAGE_BYTES / 10);
        assert!(counts.len() > 2 * MAX_MESSAGE_BYTES);
        let original: Vec<ProcessCounts> = vec![
            ("second".into(), counts.clone()),
            ("silent".into(), String::new()),
            ("first".into(), counts),
        ];
        let sent = original.clone();
        let sender = std::thread::Builder::new().name("sender".into()).spawn(move || send_whole(&to, &sent));
        assert_eq!(receive_whole(&from).expect("it is whole"), original);
        sender.expect("there are threads").join().expect("it does not panic").expect("somebody reads");
    }

    fn wait_for(registry: &Registry, failed: u64) {
        let deadline = Instant::now() + MESSAGE_TIMEOUT;
        while registry.snapshot().reload.failed != failed {
            assert!(Instant::now() < deadline, "{:?} is not {failed}", registry.snapshot().reload);
            std::thread::yield_now();
        }
    }

    #[test]
    fn the_last_numbers_are_sent_at_the_end() {
        let (to, from) = UnixStream::pair().expect("there are descriptors");
        let (before, now) = (Registry::new(), Registry::new());
        let telling =
            CounterSender::begin(to, "/none".into(), Arc::clone(&before)).expect("there are threads");
        take_up(from, 1, Arc::clone(&now));
        before.reload_failed("it is wrong");
        telling.end();
        wait_for(&now, 1);
    }

    #[test]
    fn the_process_that_serves_by_then_receives_the_counters() {
        let (to, from) = UnixStream::pair().expect("there are descriptors");
        let folder = tempfile::tempdir().expect("there is room");
        let path = folder.path().join("upgrade.sock");
        let (before, now) = (Registry::new(), Registry::new());
        let telling = CounterSender::begin(to, path.clone(), Arc::clone(&before)).expect("there are threads");
        drop(receive_whole(&from).expect("it tells"));
        let listener = std::os::unix::net::UnixListener::bind(&path).expect("the path is free");
        drop(from);
        before.reload_failed("it is wrong");
        // It bounds accept(2) too (socket(7)).
        set_socket_timeout(&listener, Timeout::Recv, Some(MESSAGE_TIMEOUT)).expect("it is a socket");
        let (stream, _) = listener.accept().expect("it looks for another one");
        let opening: Opening = receive(&stream).expect("it says what it wants");
        assert!(matches!(opening.ask, UpgradeRequest::Counters), "{opening:?}");
        receive_counters(stream, Arc::clone(&now), ());
        wait_for(&now, 1);
        telling.end();
    }
}
