//! A proxy on the way to backends (CONNECT, SOCKS) that follows a script. In: what it says. Out: what it was asked.

use std::io::{Read, Write};
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

use crate::backend::{Backend, Peer};
use crate::client::dial;

/// A proxy that connects every client to one backend, and the requests that it received.
pub struct Tunnel {
    requests: Arc<Mutex<Vec<u8>>>,
    /// The listener of the proxy.
    pub backend: Backend,
}

impl Tunnel {
    /// `turns`: how many bytes it waits for, as `\n` or a number of them, and what it says then.
    pub fn new(to: SocketAddr, turns: &'static [(usize, &'static [u8])]) -> Self {
        let requests: Arc<Mutex<Vec<u8>>> = Arc::default();
        let seen = Arc::clone(&requests);
        let backend = Backend::start(move |peer: &mut Peer| {
            for (count, answer) in turns {
                let mut buffer = vec![0; *count];
                if peer.stream.read_exact(&mut buffer).is_err() {
                    return;
                }
                seen.lock().expect("no thread panicked").extend_from_slice(&buffer);
                let _ = peer.stream.write_all(answer);
            }
            let mut there = dial(to).expect("the backend listens");
            let (mut back, mut here) =
                (there.try_clone().expect("a descriptor"), peer.stream.try_clone().expect("a descriptor"));
            std::thread::scope(|scope| {
                scope.spawn(move || std::io::copy(&mut back, &mut here));
                let _ = std::io::copy(&mut peer.stream, &mut there);
                let _ = there.shutdown(std::net::Shutdown::Write);
            });
        });
        Self { requests, backend }
    }

    /// The requests that it has received.
    pub fn requests(&self) -> Vec<u8> {
        self.requests.lock().expect("no thread panicked").clone()
    }
}
