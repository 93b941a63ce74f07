//! A client with a plan, which speaks real TLS as far as its plan goes.

use std::cell::RefCell;
use std::rc::Rc;

use handfast_leg::memory::Link;
use handfast_stats::random::Random;
use handfast_tls::buffer::Buffer;
use handfast_tls::client::ClientSession;
use handfast_tls::session::Session;

use super::backend::TAG;
use super::peers::{End, Wire, byte};

/// Point up to which it goes before it ends as planned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Reach {
    /// Something that is not TLS.
    NotTls,
    /// Some bytes of its hello.
    PartOfTheHello,
    /// Its hello, and nothing that comes after.
    Hello,
    /// The whole handshake, and its bytes.
    Data,
}

pub(super) struct Client {
    pub(super) wire: Wire,
    /// `None` where it speaks plain text.
    session: Option<ClientSession>,
    pub(super) reach: Reach,
    pub(super) end: End,
    /// It waits for the backend's end before it ends itself.
    polite: bool,
    /// Number of bytes to send.
    pub(super) means: usize,
    pub(super) has_sent: bool,
    pub(super) ended: bool,
    /// It has sent close_notify and everything before it.
    pub(super) closed: bool,
    pub(super) received_bytes: usize,
    /// The proxy has sent close_notify.
    pub(super) saw_close_notify: bool,
    /// The proxy has sent an alert.
    pub(super) alert: Option<Box<str>>,
    incoming: Vec<u8>,
    over: bool,
}

impl Client {
    pub(super) fn new(
        link: Rc<RefCell<Link>>,
        mut session: Option<ClientSession>,
        mut random: Random,
    ) -> Self {
        let reaches = [
            Reach::NotTls,
            Reach::PartOfTheHello,
            Reach::Hello,
            Reach::Data,
            Reach::Data,
            Reach::Data,
            Reach::Data,
        ];
        let ends =
            [End::InOrder, End::InOrder, End::InOrder, End::InOrder, End::Fin, End::Reset, End::Silent];
        let mut reach = *random.pick(&reaches).expect("there are some");
        if session.is_none() {
            reach = Reach::Data;
        }
        let end = *random.pick(&ends).expect("there are some");
        let mut hello = Buffer::default();
        if let Some(session) = &mut session {
            session.start(&mut hello).expect("a client can begin");
        }
        let mut wire = Wire::new(link, random);
        match reach {
            Reach::NotTls => wire.outgoing.extend(b"GET / HTTP/1.1\r\nHost: here\r\n\r\n"),
            Reach::PartOfTheHello => {
                let part = (wire.random.next() as usize) % hello.len();
                wire.outgoing.extend(&hello.filled()[..part]);
            }
            Reach::Hello | Reach::Data => wire.outgoing.extend(hello.filled()),
        }
        let means = [0, 7, 4_000, 80_000][(wire.random.next() % 4) as usize];
        let polite = wire.random.next().is_multiple_of(3);
        Self {
            wire,
            session,
            reach,
            end,
            polite,
            means,
            has_sent: false,
            ended: false,
            closed: false,
            received_bytes: 0,
            saw_close_notify: false,
            alert: None,
            incoming: Vec::new(),
            over: false,
        }
    }

    /// Returns true if it completes the handshake and then sends nothing for as long as it can.
    pub(super) fn is_silent(&self) -> bool {
        self.reach == Reach::Data && self.end == End::Silent && self.means == 0
    }

    /// Tickets that have come.
    pub(super) fn tickets(&self) -> usize {
        self.session.as_ref().map_or(0, ClientSession::tickets_received)
    }

    /// Returns true if it completes everything and ends cleanly; a FIN is an end without TLS.
    pub(super) fn is_cooperative(&self) -> bool {
        let in_order = self.end == End::InOrder || (self.session.is_none() && self.end == End::Fin);
        self.reach == Reach::Data && in_order
    }

    /// Returns true if it has received the backend's end.
    pub(super) fn saw_clean_end(&self) -> bool {
        if self.session.is_some() { self.saw_close_notify } else { self.wire.saw_fin() }
    }

    /// Does the next thing of its plan. `hurry`: politeness and silence have an end.
    pub(super) fn act(&mut self, hurry: bool) {
        if self.ended || self.wire.go() {
            return;
        }
        if self.wire.is_closed() || self.over {
            self.ended = true;
            return self.wire.fin();
        }
        if self.reach == Reach::Data {
            if self.session.as_ref().is_some_and(|session| !session.is_established()) {
                return;
            }
            if !std::mem::replace(&mut self.has_sent, true) {
                return self.send_data();
            }
            if self.polite && !self.saw_clean_end() && !hurry {
                return;
            }
        }
        self.end();
    }

    /// Something that is another when it has done anything; half a record that came is something too.
    pub(super) fn progress(&self) -> (usize, usize, bool, bool) {
        (self.wire.came, self.wire.outgoing.len(), self.has_sent, self.ended)
    }

    fn send_data(&mut self) {
        let bytes: Vec<u8> = (0..self.means).map(|index| byte(!TAG, index)).collect();
        let Some(session) = &mut self.session else { return self.wire.outgoing.extend(bytes) };
        let mut records = Buffer::default();
        if !bytes.is_empty() {
            session.encrypt(&bytes, &mut records).expect("it is established");
        }
        if self.end == End::InOrder && !self.polite {
            // Together with the last data, sometimes.
            self.close(&mut records);
        }
        self.wire.outgoing.extend(records.filled());
    }

    fn close(&mut self, records: &mut Buffer) {
        if !std::mem::replace(&mut self.closed, true)
            && let Some(session) = &mut self.session
        {
            session.close(records);
        }
    }

    fn end(&mut self) {
        match self.end {
            End::InOrder if self.session.is_some() && self.reach == Reach::Data && !self.closed => {
                let mut records = Buffer::default();
                self.close(&mut records);
                return self.wire.outgoing.extend(records.filled());
            }
            End::InOrder | End::Fin => {
                self.closed |= self.session.is_none();
                self.wire.fin();
            }
            End::Reset => self.wire.reset(),
            // The proxy has to end it.
            End::Silent => return,
        }
        self.ended = true;
    }

    /// Reads some of what came.
    pub(super) fn listen(&mut self, all: bool) {
        let came = self.wire.come(all);
        if came.is_empty() || self.over || self.reach == Reach::NotTls {
            return;
        }
        let Some(session) = &mut self.session else { return self.receive_data(&came) };
        self.incoming.extend(came);
        let mut bytes = std::mem::take(&mut self.incoming);
        let (mut plaintext, mut replies) = (Buffer::default(), Buffer::default());
        let received = session.receive(&mut bytes, &mut plaintext, &mut replies);
        self.incoming = session.kept().to_vec();
        self.receive_data(plaintext.filled());
        self.saw_close_notify |= received.closed;
        // A client that goes no further than its hello has nothing more to send either.
        if self.reach == Reach::Data && !self.closed && !self.ended {
            self.wire.outgoing.extend(replies.filled());
        }
        if let Some(failure) = received.failure {
            self.over = true;
            self.alert = Some(failure.detail);
        }
    }

    fn receive_data(&mut self, bytes: &[u8]) {
        for found in bytes {
            assert!(!self.saw_close_notify, "data behind close_notify");
            assert_eq!(*found, byte(TAG, self.received_bytes), "byte {} to the client", self.received_bytes);
            self.received_bytes += 1;
        }
    }
}
