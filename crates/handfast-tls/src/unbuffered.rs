//! Shared loop over the states of rustls's unbuffered connections, for clients and servers.
//!
//! In: a connection of either side, what arrived, and an observer of the handshake. Out: plaintext, records to
//! send, and what is kept for the next call. `server.rs`, `client.rs` and this file are the only ones that know rustls's
//! connection types.
//!
//! rustls remembers places in the buffer of the last call, and panics when it is given another one while a message is
//! incomplete. So what was not consumed is kept here, and given back with every call, whatever the call is for.

use handfast_wire::registry;
use rustls::unbuffered::{ConnectionState, EncodeError, EncodeTlsData, EncryptError, UnbufferedStatus};
use rustls::{CommonState, HandshakeKind};

use crate::alerts;
use crate::buffer::Buffer;
use crate::error_words::failure;
use crate::session::{Agreed, Failure, FailureKind, Received};
use handfast_pki::presented::Peer;

/// A connection of either side.
pub(crate) trait Connection {
    /// rustls's mark of the side.
    type Data;
    /// Kind of the peer, for error texts.
    const PEER: Peer;
    /// Looks at the next state.
    fn process<'c, 'i>(&'c mut self, incoming: &'i mut [u8]) -> UnbufferedStatus<'c, 'i, Self::Data>;
    /// Returns the state that clients and servers have in common.
    fn common(&self) -> &CommonState;
}

/// Looks at a handshake after each of its steps, and may end it.
pub(crate) trait Watch<C> {
    /// A step is about to be done.
    fn before(&mut self);
    /// Called after each step, with any outcome; `written` has its sent bytes. The last one is the step after which
    /// `connection` is no longer handshaking.
    fn after(&mut self, connection: &C, written: &[u8]) -> Result<(), Failure>;
}

/// A connection and what belongs to it on either side.
pub(crate) struct Core<C> {
    pub(crate) connection: C,
    /// Received and not consumed.
    kept: Vec<u8>,
    established: bool,
    failed: bool,
}

/// Result of one step through the connection's state.
enum LoopStep {
    /// Look again.
    More,
    /// Everything that is there has been dealt with.
    Done,
    /// The same, and the peer has sent close_notify.
    Closed,
}

impl<C: Connection> Core<C> {
    pub(crate) fn new(connection: C) -> Self {
        Self { connection, kept: Vec::new(), established: false, failed: false }
    }

    pub(crate) fn kept(&self) -> &[u8] {
        &self.kept
    }

    pub(crate) fn is_established(&self) -> bool {
        self.established
    }

    /// The next state, with what is kept: for calls that bring nothing.
    pub(crate) fn poll(&mut self) -> UnbufferedStatus<'_, '_, C::Data> {
        self.connection.process(&mut self.kept)
    }

    /// See [`crate::session::Session::receive`].
    pub(crate) fn receive(
        &mut self,
        incoming: &mut [u8],
        plaintext: &mut Buffer,
        outgoing: &mut Buffer,
        watch: &mut impl Watch<C>,
    ) -> Received {
        let mut received = Received { closed: false, failure: None };
        if self.failed {
            return received;
        }
        let mut consumed = 0;
        loop {
            let (discard, outcome) = self.step(&mut incoming[consumed..], plaintext, outgoing, watch);
            consumed += discard;
            match outcome {
                Ok(LoopStep::More) => {}
                Ok(LoopStep::Done) => break,
                Ok(LoopStep::Closed) => received.closed = true,
                Err(failure) => {
                    self.failed = true;
                    self.collect_alert(outgoing);
                    received.failure = Some(failure);
                    break;
                }
            }
        }
        self.keep(&incoming[consumed.min(incoming.len())..]);
        received
    }

    fn step(
        &mut self,
        incoming: &mut [u8],
        plaintext: &mut Buffer,
        outgoing: &mut Buffer,
        watch: &mut impl Watch<C>,
    ) -> (usize, Result<LoopStep, Failure>) {
        let before = outgoing.len();
        if !self.established {
            watch.before();
        }
        let (discard, turn) = take_turn(self.connection.process(incoming), plaintext, outgoing);
        let mut outcome = turn.map_err(|error| {
            self.send_alert(&error, incoming.len().saturating_sub(discard), &mut *outgoing, before);
            failure(C::PEER, &error)
        });
        if !self.established {
            // Asked after a failure too, so that nothing which this step left is met by another session.
            let watched = watch.after(&self.connection, &outgoing.filled()[before..]);
            outcome = outcome.and_then(|turn| watched.map(|()| turn));
            self.established = !self.connection.common().is_handshaking();
        }
        (discard, outcome)
    }

    /// See [`crate::session::Session::encrypt`].
    pub(crate) fn encrypt(&mut self, plaintext: &[u8], outgoing: &mut Buffer) -> Result<(), Failure> {
        let mut size = encrypted_size(plaintext.len());
        loop {
            match self.poll().state.map_err(|error| failure(C::PEER, &error))? {
                ConnectionState::WriteTraffic(mut traffic) => {
                    match traffic.encrypt(plaintext, outgoing.room(size)) {
                        Ok(written) => {
                            outgoing.wrote(written);
                            return Ok(());
                        }
                        Err(EncryptError::InsufficientSize(needed)) => size = needed.required_size,
                        Err(error) => {
                            return Err(Failure::new(FailureKind::Ourselves, format!("encrypt: {error}")));
                        }
                    }
                }
                ConnectionState::EncodeTlsData(mut data) => encode(&mut data, outgoing)?,
                ConnectionState::TransmitTlsData(data) => data.done(),
                ConnectionState::PeerClosed => {}
                _ => return Err(Failure::new(FailureKind::Ourselves, "encrypt: the session is not open")),
            }
        }
    }

    /// See [`crate::session::Session::close`].
    pub(crate) fn close(&mut self, outgoing: &mut Buffer) {
        // Bounded: a session that is not open for writing within a few states will not be.
        for _ in 0..16 {
            match self.poll().state {
                Ok(ConnectionState::WriteTraffic(mut traffic)) => {
                    if let Ok(written) = traffic.queue_close_notify(outgoing.room(1024)) {
                        outgoing.wrote(written);
                    }
                    return;
                }
                Ok(ConnectionState::EncodeTlsData(mut data)) => {
                    if encode(&mut data, outgoing).is_err() {
                        return;
                    }
                }
                Ok(ConnectionState::TransmitTlsData(data)) => data.done(),
                Ok(ConnectionState::PeerClosed) => {}
                _ => return,
            }
        }
    }

    /// Returns the parameters that both sides know; the signature unless the session was resumed.
    pub(crate) fn agreed(&self, signature: Option<&'static str>) -> Agreed {
        let common = self.connection.common();
        let kind = common.handshake_kind();
        let resumed = kind.map(|kind| kind == HandshakeKind::Resumed);
        Agreed {
            version: common.protocol_version().and_then(|version| registry::version_name(version.into())),
            suite: common
                .negotiated_cipher_suite()
                .and_then(|suite| registry::cipher_suite_name(suite.suite().into())),
            group: common
                .negotiated_key_exchange_group()
                .and_then(|group| registry::group_name(group.name().into())),
            signature: if resumed == Some(true) { None } else { signature },
            resumed,
            hello_retry: kind == Some(HandshakeKind::FullWithHelloRetryRequest),
            alpn: common.alpn_protocol().map(|protocol| String::from_utf8_lossy(protocol).into()),
            ..Agreed::default()
        }
    }

    fn keep(&mut self, rest: &[u8]) {
        if rest.is_empty() || self.failed {
            self.kept = Vec::new();
        } else {
            self.kept.clear();
            self.kept.extend_from_slice(rest);
        }
    }

    /// Sends the alert for an error, and if rustls has none, makes it have one; `unread` bytes are in the caller's buffer,
    /// and from `before` on `outgoing` is this step's.
    fn send_alert(&mut self, error: &rustls::Error, unread: usize, outgoing: &mut Buffer, before: usize) {
        let queued = outgoing.len();
        self.collect_alert(outgoing);
        let Some(deserved) = alerts::deserved(error) else { return };
        if outgoing.len() == queued {
            let handshaking = self.connection.common().is_handshaking();
            // It is an error again; the alert is what it is for.
            let _ = self.connection.process(&mut alerts::provocation(error, unread, handshaking)).state;
            self.collect_alert(outgoing);
        }
        alerts::correct(&mut outgoing.filled_mut()[before..], deserved);
    }

    /// After an error rustls has the alert for the peer ready. It is called for nothing else: in a search for further
    /// messages, it would use positions in a buffer that is gone.
    fn collect_alert(&mut self, outgoing: &mut Buffer) {
        while self.connection.common().wants_write() {
            match self.connection.process(&mut []).state {
                Ok(ConnectionState::EncodeTlsData(mut data)) => {
                    if encode(&mut data, outgoing).is_err() {
                        return;
                    }
                }
                Ok(ConnectionState::TransmitTlsData(data)) => data.done(),
                _ => return,
            }
        }
    }
}

/// Room that `plaintext` bytes take as records, at most.
pub(crate) fn encrypted_size(plaintext: usize) -> usize {
    const FRAGMENT: usize = 16_384;
    // Header, nonce, content type and tag: 29 bytes in TLS 1.2, 22 in TLS 1.3.
    const OVERHEAD: usize = 32;
    plaintext + (plaintext / FRAGMENT + 1) * OVERHEAD
}

/// Does what the state asks for; the bytes of `incoming` that are done with, and whether to look again.
fn take_turn<D>(
    status: UnbufferedStatus<'_, '_, D>,
    plaintext: &mut Buffer,
    outgoing: &mut Buffer,
) -> (usize, Result<LoopStep, rustls::Error>) {
    let mut discard = status.discard;
    let turn = match status.state {
        Ok(ConnectionState::ReadTraffic(mut traffic)) => {
            while let Some(record) = traffic.next_record() {
                match record {
                    Ok(record) => {
                        plaintext.extend(record.payload);
                        discard += record.discard;
                    }
                    Err(error) => return (discard, Err(error)),
                }
            }
            Ok(LoopStep::More)
        }
        Ok(ConnectionState::EncodeTlsData(mut data)) => encode(&mut data, outgoing)
            .map(|()| LoopStep::More)
            .map_err(|failure| rustls::Error::General(failure.to_string())),
        // It is as good as sent: the caller owns the bytes now.
        Ok(ConnectionState::TransmitTlsData(data)) => {
            data.done();
            Ok(LoopStep::More)
        }
        Ok(ConnectionState::PeerClosed) => Ok(LoopStep::Closed),
        Ok(
            ConnectionState::BlockedHandshake | ConnectionState::WriteTraffic(_) | ConnectionState::Closed,
        ) => Ok(LoopStep::Done),
        // A server of ours never offers early data: replayable bytes are not for a proxy to pass on unasked.
        Ok(_) => Err(rustls::Error::General("a state of the session that was not asked for".into())),
        Err(error) => Err(error),
    };
    (discard, turn)
}

/// Writes a record that is ready.
pub(crate) fn encode<D>(data: &mut EncodeTlsData<'_, D>, outgoing: &mut Buffer) -> Result<(), Failure> {
    let mut size = 4096;
    loop {
        match data.encode(outgoing.room(size)) {
            Ok(written) => {
                outgoing.wrote(written);
                return Ok(());
            }
            Err(EncodeError::InsufficientSize(needed)) => size = needed.required_size,
            Err(error) => return Err(Failure::new(FailureKind::Ourselves, format!("encode: {error}"))),
        }
    }
}
