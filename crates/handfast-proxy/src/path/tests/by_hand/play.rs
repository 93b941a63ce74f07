//! A connection in a test's hand: its client, its backend and its clock.

use std::cell::{Cell, RefCell};
use std::net::SocketAddr;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Waker};
use std::time::Duration;

use handfast_leg::memory::Link;
use handfast_net::clock::Moment;
use handfast_tls::buffer::Buffer;
use handfast_tls::client::ClientSession;
use handfast_tls::session::Session;

use super::super::backend::Dial;
use super::super::scene::{Reason, Scene, session};
use super::super::world::{self, Simulated, World, world};
use crate::path;

pub(super) const SECOND: Duration = Duration::from_secs(1);

/// A connection in a test's hand; whatever is sent to either peer arrives at once.
pub(super) struct Play<'a> {
    pub(super) scene: &'a Scene,
    before: Vec<(Reason, u64)>,
    pub(super) task: Option<Pin<Box<dyn Future<Output = ()>>>>,
    session: ClientSession,
    pub(super) client: Rc<RefCell<Link>>,
    pub(super) backend: Rc<RefCell<Link>>,
    /// Bytes that the client has not decrypted yet, and its plaintext.
    incoming: Vec<u8>,
    pub(super) plaintext: Vec<u8>,
    pub(super) saw_close_notify: bool,
}

impl<'a> Play<'a> {
    pub(super) fn new(scene: &'a Scene, version: &str) -> Self {
        Self::from(scene, version, None)
    }

    /// Of a client at this address.
    pub(super) fn from(scene: &'a Scene, version: &str, address: Option<SocketAddr>) -> Self {
        Self::with_session(scene, session(version), address)
    }

    pub(super) fn with_session(
        scene: &'a Scene,
        session: ClientSession,
        address: Option<SocketAddr>,
    ) -> Self {
        let link = || Rc::new(RefCell::new(Link { room: 100_000, ..Link::default() }));
        let (client, backend) = (link(), link());
        let (now, calm) = (Moment::now(), Rc::new(Cell::new(false)));
        // The seed decides how much the kernel takes with the SYN: nothing, here.
        world::begin(World::new(
            now,
            Dial::Connects { after: Duration::ZERO },
            Rc::clone(&backend),
            &calm,
            1,
        ));
        world(|world| world.is_crowded = false);
        let before = scene.ends();
        let connection = scene.accept_from(address, now, world::socket(&client, &calm, 1, 4));
        let task: Pin<Box<dyn Future<Output = ()>>> = Box::pin(path::serve::<Simulated>(connection));
        let (incoming, plaintext) = (Vec::new(), Vec::new());
        Self {
            scene,
            before,
            task: Some(task),
            session,
            client,
            backend,
            incoming,
            plaintext,
            saw_close_notify: false,
        }
    }

    /// One whose relay has begun.
    pub(super) fn established(scene: &'a Scene, version: &str) -> Self {
        let mut play = Self::new(scene, version);
        play.shake_hands();
        play.wake();
        play
    }

    /// Wakes the connection, as the engine does for an event or a deadline; returns true if it has ended.
    pub(super) fn wake(&mut self) -> bool {
        let Some(task) = &mut self.task else { return true };
        if task.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_ready() {
            self.task = None;
        }
        self.task.is_none()
    }

    pub(super) fn pass(&mut self, time: Duration) {
        world(|world| world.now = world.now + time);
        self.wake();
    }

    /// Sets the outcomes of the next dials; those that follow connect at once.
    pub(super) fn dials(self, dials: &[Dial]) -> Self {
        world(|world| world.dials.extend(dials));
        self
    }

    /// Others wait for the thread: its signer signs.
    pub(super) fn in_a_crowd(self) -> Self {
        world(|world| world.is_crowded = true);
        self
    }

    /// The signer has its turn.
    pub(super) fn sign(&mut self) {
        assert!(
            self.scene.thread().signer.as_ref().expect("it has one").work_once(),
            "there is something to sign"
        );
        self.wake();
    }

    /// The addresses that were dialled, and whether they were going to be spoken to at once.
    pub(super) fn dialled(&self) -> Vec<(String, bool)> {
        world(|world| world.dialled.clone())
    }

    /// Its relay has begun.
    pub(super) fn carries(&self) -> bool {
        world(|world| world.carries_bytes)
    }

    /// The client resets it.
    pub(super) fn reset(&self) {
        self.client.borrow_mut().peer_reset = true;
    }

    /// Returns the bytes that the client received in plain text.
    pub(super) fn client_receives(&self) -> Vec<u8> {
        self.client.borrow_mut().to_peer.drain(..).collect()
    }

    /// As the client, in the clear.
    pub(super) fn send(&self, bytes: &[u8]) {
        self.client.borrow_mut().to_leg.extend(bytes);
    }

    pub(super) fn hello(&mut self) -> Vec<u8> {
        let mut records = Buffer::default();
        self.session.start(&mut records).expect("a client can begin");
        records.filled().to_vec()
    }

    /// Until the client has all that it needs, and its last flight is on its way.
    pub(super) fn shake_hands(&mut self) {
        let hello = self.hello();
        self.send(&hello);
        for _ in 0..4 {
            self.wake();
            self.listen();
            if self.session.is_established() {
                return;
            }
        }
        panic!("no time has passed, and nothing was missing");
    }

    pub(super) fn send_plaintext(&mut self, plaintext: &[u8]) {
        let mut records = Buffer::default();
        self.session.encrypt(plaintext, &mut records).expect("it is established");
        self.send(records.filled());
    }

    pub(super) fn close(&mut self) {
        let mut records = Buffer::default();
        self.session.close(&mut records);
        self.send(records.filled());
    }

    /// The client takes what has come.
    pub(super) fn listen(&mut self) {
        self.incoming.extend(self.client.borrow_mut().to_peer.drain(..));
        let mut bytes = std::mem::take(&mut self.incoming);
        let (mut plaintext, mut replies) = (Buffer::default(), Buffer::default());
        let received = self.session.receive(&mut bytes, &mut plaintext, &mut replies);
        self.incoming = self.session.kept().to_vec();
        self.plaintext.extend(plaintext.filled());
        self.saw_close_notify |= received.closed;
        self.send(replies.filled());
    }

    pub(super) fn backend_sends(&mut self, bytes: &[u8]) {
        self.backend.borrow_mut().to_leg.extend(bytes);
        self.wake();
    }

    /// The backend takes what has come.
    pub(super) fn backend_receives(&self) -> Vec<u8> {
        self.backend.borrow_mut().to_peer.drain(..).collect()
    }

    pub(super) fn tickets(&self) -> usize {
        self.session.tickets_received()
    }

    /// Returns how it ended; `None` while it goes on.
    pub(super) fn end(&mut self) -> Option<Reason> {
        if !self.wake() {
            return None;
        }
        let known = |reason| self.before.iter().find(|(known, _)| *known == reason).map_or(0, |(_, n)| *n);
        self.scene
            .ends()
            .into_iter()
            .find(|(reason, count)| *count > known(*reason))
            .map(|(reason, _)| reason)
    }

    /// Lets the client reset it, and both sides take the bytes on their way; returns how it ended.
    pub(super) fn cut(&mut self) -> Option<Reason> {
        self.reset();
        (0..8).find_map(|_| {
            let _ = (self.client_receives(), self.backend_receives());
            self.pass(SECOND);
            self.end()
        })
    }

    /// The alert that the client got in the clear: the last record's description.
    pub(super) fn alert(&self) -> Option<u8> {
        let sent: Vec<u8> = self.client.borrow().to_peer.iter().copied().collect();
        match sent.as_slice() {
            [.., 21, 3, _, 0, 2, 2, description] => Some(*description),
            _ => None,
        }
    }
}
