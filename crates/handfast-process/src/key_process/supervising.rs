//! The supervisor: starts the key process, and again when it ends. It has no keys, and ends with the proxy.
//!
//! In: from the proxy, the far ends of its channels, and which files the keys are in. Out: a key process that has these, and word to
//! the proxy when one ends. One thread, which does nothing but wait.

use std::collections::BTreeSet;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::net::RecvFlags;

use super::channel::tell_end;
use super::telling::{Word, hear, tell};
use super::{itself, pair};
use handfast_net::descriptors::{receive_descriptors, send_descriptors};

/// One that lived for less than the first is not started again before the second has passed.
const AGAIN: (Duration, Duration) = (Duration::from_secs(1), Duration::from_millis(500));

/// What the proxy has told.
#[derive(Default)]
struct Told {
    is_sandboxed: bool,
    reach: Vec<Vec<u8>>,
    files: BTreeSet<Vec<u8>>,
}

/// A key process.
struct Keys {
    child: Child,
    /// Ends when it does.
    link: OwnedFd,
    started: Instant,
}

/// Why waiting is over.
enum Over {
    ProxyEnded,
    KeysEnded,
    Late,
}

/// Supervises a key process for the proxy at the other end of standard input, until that ends.
///
/// **Errors**: it is nobody who started it so; a process cannot be started.
pub fn supervise(channels: usize) -> io::Result<()> {
    let control = begin(c"key-supervisor")?;
    let stream = UnixStream::from(control);
    let far = receive_descriptors(&stream, channels)?;
    let control = OwnedFd::from(stream);
    let mut told = Told::default();
    loop {
        match hear(&control, RecvFlags::empty())? {
            None => return Ok(()),
            Some((Word::Begin, _)) => break,
            Some((Word::Sandboxed, _)) => told.is_sandboxed = true,
            Some((Word::Reach, path)) => told.reach.push(path),
            Some((word, content)) => told.take(word, content),
        }
    }
    loop {
        let mut keys = start(&far, &told)?;
        let over = told.watch(&control, Some(&keys.link), None);
        // It may have ended by itself.
        let _ = keys.child.kill();
        let how = keys.child.wait().map_or_else(|error| error.to_string(), |status| status.to_string());
        if matches!(over, Over::ProxyEnded) {
            return Ok(());
        }
        far.iter().for_each(tell_end);
        // The proxy may end at this moment, which is seen in the next turn.
        let _ = tell(&control, Word::Ended, how.as_bytes());
        if keys.started.elapsed() < AGAIN.0
            && matches!(told.watch(&control, None, Some(Instant::now() + AGAIN.1)), Over::ProxyEnded)
        {
            return Ok(());
        }
    }
}

/// What supervisor and key process have in common: nobody but the other end of standard input, which is returned, ends them, and
/// their memory is nobody's to see.
pub(super) fn begin(name: &std::ffi::CStr) -> io::Result<OwnedFd> {
    rustix::thread::set_name(name)?;
    // A stop is the proxy's business, which signs until it ends; a terminal sends the signal to all of them.
    handfast_net::sys::ignore_signals()?;
    // Where the kernel lets the parent; the end of standard input is what counts.
    rustix::process::set_parent_process_death_signal(Some(rustix::process::Signal::KILL))?;
    handfast_net::sys::sandbox::give_up_privileges()?;
    let input = io::stdin().as_fd().try_clone_to_owned()?;
    if rustix::net::sockopt::socket_type(&input).is_ok_and(|kind| kind == rustix::net::SocketType::SEQPACKET)
    {
        return Ok(input);
    }
    Err(io::Error::other(
        "this is started by `handfast proxy` where process.private-keys is \"apart\", and by nobody else",
    ))
}

fn start(far: &[OwnedFd], told: &Told) -> io::Result<Keys> {
    let (link, theirs) = pair()?;
    let started = Instant::now();
    let child = itself(far.len(), false).stdin(Stdio::from(theirs)).spawn()?;
    let mut keys = Keys { child, link, started };
    let stream = UnixStream::from(keys.link);
    let descriptors: Vec<_> = far.iter().map(AsFd::as_fd).collect();
    let sent = send_descriptors(&stream, &descriptors);
    keys.link = OwnedFd::from(stream);
    // One that has ended already is seen to have when it is waited for.
    if sent.is_ok() {
        let _ = told.tell(&keys.link);
    }
    Ok(keys)
}

impl Told {
    /// What the proxy may say at any time. What the key process reaches is fixed before the first one starts: the proxy has given up its
    /// rights since, and these processes may have kept them.
    fn take(&mut self, word: Word, content: Vec<u8>) {
        match word {
            Word::Remember => drop(self.files.insert(content)),
            Word::Forget => drop(self.files.remove(&content)),
            Word::Sandboxed | Word::Reach | Word::Begin | Word::Ready | Word::Ended => {}
        }
    }

    /// Tells a new key process.
    fn tell(&self, link: &OwnedFd) -> io::Result<()> {
        if self.is_sandboxed {
            tell(link, Word::Sandboxed, &[])?;
        }
        self.reach.iter().try_for_each(|path| tell(link, Word::Reach, path))?;
        self.files.iter().try_for_each(|path| tell(link, Word::Remember, path))?;
        tell(link, Word::Begin, &[])
    }

    /// Takes what the proxy says, and hands on that the key process is ready, until one of them ends, or until then.
    fn watch(&mut self, control: &OwnedFd, link: Option<&OwnedFd>, until: Option<Instant>) -> Over {
        loop {
            let left = until.map(|until| until.saturating_duration_since(Instant::now()));
            if left.is_some_and(|left| left.is_zero()) {
                return Over::Late;
            }
            let timeout = left.and_then(|left| Timespec::try_from(left).ok());
            let watched = [Some(control), link];
            let mut ends: Vec<_> =
                watched.into_iter().flatten().map(|end| PollFd::new(end, PollFlags::IN)).collect();
            if poll(&mut ends, timeout.as_ref()).is_err() {
                continue;
            }
            let is_ready = |place: usize| ends.get(place).is_some_and(|end| !end.revents().is_empty());
            let (from_proxy, from_keys) = (is_ready(0), is_ready(1));
            if from_proxy {
                match hear(control, RecvFlags::DONTWAIT) {
                    Ok(Some((word, content))) => self.take(word, content),
                    Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                    Ok(None) | Err(_) => return Over::ProxyEnded,
                }
            }
            if let Some(link) = link.filter(|_| from_keys) {
                match hear(link, RecvFlags::DONTWAIT) {
                    // The proxy may end at this moment, which is seen in the next turn.
                    Ok(Some((Word::Ready, how))) => drop(tell(control, Word::Ready, &how)),
                    Ok(Some(_)) => {}
                    Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                    Ok(None) | Err(_) => return Over::KeysEnded,
                }
            }
        }
    }
}
