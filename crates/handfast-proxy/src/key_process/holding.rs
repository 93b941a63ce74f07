//! The key process: reads the files that hold keys, and signs with them for the proxy. It talks with nobody else.
//!
//! In: questions on its channels. Out: answers: what is public of a file, signatures. One thread for each core and two at least, so
//! that an RSA-4096 signature, which takes 4 ms, holds nobody who wants another one; files have a channel of their own.

use std::ffi::OsStr;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Barrier};

use handfast_net::sys::sandbox::{Below, Duty, confine_calls, confine_files, hear_refusals};
use handfast_tls::apart::{Held, ID, KeyId};
use rustix::buffer::spare_capacity;
use rustix::event::epoll;
use rustix::io::Errno;
use rustix::mm::{MlockAllFlags, mlockall};
use rustix::net::{RecvFlags, recv};
use rustix::process::{Resource, geteuid, getrlimit};

use super::channel::{Asked, QUESTION, Question};
use super::supervising::begin;
use super::telling::{Word, hear, tell};
use crate::upgrade::receive_descriptors;

/// What its threads share.
struct Shared {
    held: Held,
    channels: Vec<OwnedFd>,
    ready: OwnedFd,
}

/// Holds keys and signs with them, for the supervisor at the other end of standard input, until that ends.
///
/// **Errors**: it is nobody who started it so; a thread cannot be started.
pub fn hold(channels: usize) -> io::Result<()> {
    let stream = UnixStream::from(begin(c"key-process")?);
    keep_from_swap();
    let channels = receive_descriptors(&stream, channels)?;
    let link = OwnedFd::from(stream);
    let (mut is_sandboxed, mut reach, mut files) = (false, Vec::new(), Vec::new());
    loop {
        match hear(&link, RecvFlags::empty())? {
            None => return Ok(()),
            Some((Word::Begin, _)) => break,
            Some((Word::Sandboxed, _)) => is_sandboxed = true,
            Some((Word::Reach, path)) => reach.push(Below { path: path_of(&path), write: false }),
            Some((Word::Remember, path)) => files.push(path_of(&path)),
            Some(_) => {}
        }
    }
    if is_sandboxed {
        confine(&reach);
    }
    let ready = epoll::create(epoll::CreateFlags::CLOEXEC)?;
    for (place, channel) in channels.iter().enumerate() {
        let events = epoll::EventFlags::IN | epoll::EventFlags::ET;
        epoll::add(&ready, channel, epoll::EventData::new_u64(place as u64), events)?;
    }
    let shared = Arc::new(Shared { held: Held::default(), channels, ready });
    let count = std::thread::available_parallelism().map_or(1, std::num::NonZero::get).max(2) + 1;
    let (files, next) = (Arc::new(files), Arc::new(AtomicUsize::new(0)));
    let read = Arc::new(Barrier::new(count));
    for number in 0..count {
        let (shared, files, next) = (Arc::clone(&shared), Arc::clone(&files), Arc::clone(&next));
        let (read, link) = (Arc::clone(&read), link.try_clone()?);
        std::thread::Builder::new().name(format!("keys-{number}")).spawn(move || {
            handfast_tls::warm_up();
            // What the one before has read; whoever asks meanwhile waits.
            while let Some(path) = files.get(next.fetch_add(1, Ordering::Relaxed)) {
                drop(shared.held.look(path));
            }
            if read.wait().is_leader() {
                // Who listens has ended otherwise, and this process ends too.
                let _ = tell(&link, Word::Ready, &[]);
            }
            shared.serve();
        })?;
    }
    // Until the supervisor ends. Threads end with the process.
    while hear(&link, RecvFlags::empty())?.is_some() {}
    Ok(())
}

fn path_of(bytes: &[u8]) -> PathBuf {
    Path::new(OsStr::from_bytes(bytes)).to_path_buf()
}

/// Where nothing limits it, keys are not written to swap. With a limit an allocation could fail later, which is worse.
fn keep_from_swap() {
    if geteuid().is_root() || getrlimit(Resource::Memlock).current.is_none() {
        // Refused where even root may not: then it is as without.
        let _ = mlockall(MlockAllFlags::CURRENT | MlockAllFlags::FUTURE | MlockAllFlags::ONFAULT);
    }
}

/// Leaves this process the files of keys, to read, and no socket but those that it has.
fn confine(reach: &[Below]) {
    // What this kernel cannot do the proxy says of itself at the same time.
    let _ = confine_files(reach, true);
    if hear_refusals().is_ok() {
        let _ = confine_calls(Duty::HoldsKeys);
    }
}

impl Shared {
    /// Answers questions, beside other threads that do the same.
    fn serve(&self) {
        let mut buffer = vec![0; QUESTION + 64];
        let mut events: Vec<epoll::Event> = Vec::with_capacity(1);
        loop {
            events.clear();
            match epoll::wait(self.ready.as_fd(), spare_capacity(&mut events), None) {
                Ok(_) | Err(Errno::INTR) => {}
                Err(_) => return,
            }
            for event in events.iter() {
                let place = usize::try_from(event.data.u64()).unwrap_or(usize::MAX);
                let Some(channel) = self.channels.get(place) else { continue };
                self.serve_one(channel, &mut buffer);
            }
        }
    }

    /// Answers everything that is asked on a channel.
    fn serve_one(&self, channel: &OwnedFd, buffer: &mut [u8]) {
        loop {
            let length = match recv(channel, &mut *buffer, RecvFlags::DONTWAIT) {
                Ok((_, length)) if length > 0 => length,
                Err(Errno::INTR) => continue,
                _ => return,
            };
            let Some(asked) = Asked::read(&buffer[..length]) else { continue };
            let answer = match asked.question {
                Question::Sign => self.sign(asked.content),
                Question::Look => Ok(self.held.look(&path_of(asked.content))),
                Question::Forget => {
                    let keys = asked.content.as_chunks::<ID>().0;
                    keys.iter().for_each(|key| self.held.forget(&KeyId(*key)));
                    continue;
                }
            };
            asked.answer(channel, answer);
        }
    }

    fn sign(&self, question: &[u8]) -> Result<Vec<u8>, String> {
        let odd = || "the question is not understood".to_owned();
        let (key, rest) = question.split_first_chunk::<ID>().ok_or_else(odd)?;
        let (scheme, message) = rest.split_first_chunk().ok_or_else(odd)?;
        self.held.sign(&KeyId(*key), u16::from_le_bytes(*scheme), message)
    }
}
