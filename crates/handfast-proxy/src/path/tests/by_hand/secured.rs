//! A backend's TLS in a test's hand, as [`Play`] has the client's.

use std::rc::Rc;

use handfast_tls::buffer::Buffer;
use handfast_tls::server::{Server, ServerSession};
use handfast_tls::session::Session;
use handfast_wire::{Peek, peek};

use super::super::scene::Scene;
use super::play::Play;

/// The TLS of a backend, as far as it has come.
pub(super) struct Secured {
    server: Rc<Server>,
    session: Option<ServerSession>,
    /// Bytes that it has not decrypted yet, and its plaintext.
    incoming: Vec<u8>,
    pub(super) plaintext: Vec<u8>,
}

impl Secured {
    pub(super) fn new(scene: &Scene) -> Self {
        Self { server: Rc::clone(scene.server()), session: None, incoming: Vec::new(), plaintext: Vec::new() }
    }

    /// Takes what has come for it and answers that, until there is nothing more.
    pub(super) fn listen(&mut self, play: &mut Play<'_>) {
        loop {
            let came = play.backend_receives();
            if came.is_empty() {
                return;
            }
            self.take(play, &came);
        }
    }

    /// Takes these bytes and answers them.
    pub(super) fn take(&mut self, play: &mut Play<'_>, bytes: &[u8]) {
        self.incoming.extend(bytes);
        if self.session.is_none() {
            let Peek::Complete(hello) = peek(&self.incoming, 65_536) else { return };
            self.session = Some(self.server.accept(&hello).expect("a server can begin"));
        }
        let session = self.session.as_mut().expect("made above");
        let (mut plaintext, mut replies) = (Buffer::default(), Buffer::default());
        let mut bytes = std::mem::take(&mut self.incoming);
        let received = session.receive(&mut bytes, &mut plaintext, &mut replies);
        assert!(received.failure.is_none(), "{:?}", received.failure);
        self.incoming = session.kept().to_vec();
        self.plaintext.extend(plaintext.filled());
        play.backend_sends(replies.filled());
    }

    pub(super) fn send_plaintext(&mut self, play: &mut Play<'_>, plaintext: &[u8]) {
        let mut records = Buffer::default();
        let session = self.session.as_mut().expect("its handshake is over");
        session.encrypt(plaintext, &mut records).expect("it is established");
        play.backend_sends(records.filled());
    }
}
