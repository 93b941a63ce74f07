//! Clients of the bystander's service that come and go all the while something is done to the proxy.
//!
//! In: the scene. Out: how many were served to their end, and how many were not, each with its reason.

use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread::{Builder, JoinHandle};
use std::time::{Duration, Instant};

use handfast_lab::run::pause;
use handfast_testkit::deadline::DEADLINE;
use rustls::ClientConfig;

use crate::addresses::BYSTANDER;
use crate::error::{CaseError, broken, lab};
use crate::mode::Mode;
use crate::stage::{Stage, bystander};

/// Number of clients at a time.
const CLIENTS: usize = 2;

/// They come and go until they are stopped.
pub(crate) struct Load {
    threads: Vec<JoinHandle<Vec<String>>>,
    shared: Arc<Shared>,
}

#[derive(Default)]
struct Shared {
    stopped: AtomicBool,
    served: AtomicUsize,
}

impl Load {
    /// Begins.
    pub(crate) fn start(stage: &Stage) -> Result<Self, CaseError> {
        let shared = Arc::new(Shared::default());
        let mut threads = Vec::new();
        for _ in 0..CLIENTS {
            let (mode, client, shared) = (stage.mode, stage.certificates.client(), Arc::clone(&shared));
            let tolerates_fin = !stage.subject.sends_close_notify;
            let come_and_go = move || come_and_go((mode, tolerates_fin), &client, &shared);
            // A thread is in the network of the one that started it.
            let thread = stage.place.here(|| Builder::new().name("lab-load".into()).spawn(come_and_go))?;
            threads.push(thread.map_err(lab("start a thread"))?);
        }
        Ok(Self { threads, shared })
    }

    /// Returns the number of clients served so far.
    pub(crate) fn served(&self) -> usize {
        self.shared.served.load(Ordering::Acquire)
    }

    /// Waits until this number of further clients was served.
    pub(crate) fn more(&self, count: usize) -> Result<(), CaseError> {
        let (begun, before) = (Instant::now(), self.served());
        while self.served() < before + count {
            if begun.elapsed() > DEADLINE {
                return broken(format!(
                    "{} of {count} more clients were served in time",
                    self.served() - before
                ));
            }
            pause();
        }
        Ok(())
    }

    /// Ends; what went wrong with clients.
    pub(crate) fn stop(self) -> Vec<String> {
        self.shared.stopped.store(true, Ordering::Release);
        self.threads.into_iter().flat_map(|thread| thread.join().unwrap_or_default()).collect()
    }
}

fn come_and_go(how: (Mode, bool), client: &Arc<ClientConfig>, shared: &Shared) -> Vec<String> {
    let mut wrong = Vec::new();
    while !shared.stopped.load(Ordering::Acquire) {
        match once(how, client) {
            Ok(()) => drop(shared.served.fetch_add(1, Ordering::AcqRel)),
            Err(
                CaseError::Broken(what)
                | CaseError::Lab(what)
                | CaseError::Skipped(what)
                | CaseError::NotPossible(what),
            ) => wrong.push(what),
        }
        // Ports come back late (TIME_WAIT): so many that they last for minutes.
        let begun = Instant::now();
        while begun.elapsed() < Duration::from_millis(5) {
            pause();
        }
    }
    wrong
}

fn once((mode, tolerates_fin): (Mode, bool), client: &Arc<ClientConfig>) -> Result<(), CaseError> {
    let stream = TcpStream::connect_timeout(&SocketAddr::V4(BYSTANDER), DEADLINE);
    let stream = stream.map_err(|error| CaseError::Broken(format!("connect: {error}")))?;
    let mut peer = bystander(stream, mode, client)?;
    peer.try_send(b"under load")?;
    peer.expect(b"under load")?;
    peer.tolerates_fin = tolerates_fin;
    peer.close();
    let ending = peer.ends();
    if ending.is_clean() { Ok(()) } else { broken(format!("it closed cleanly, and received {}", ending)) }
}
