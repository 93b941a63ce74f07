//! A connection of HTTP/2 that its task and its streams share: the task owns the socket, the streams send and take content.
//!
//! In: changes by either. Out: wakes of the others, in the same turn of the event loop and behind what is ready: streams put what they have into the
//! outbox, and then their connection's task sends it in one piece.

use std::cell::{Cell, RefCell};
use std::fmt;
use std::rc::Rc;

use handfast_http::http2::connection::Settings;
use handfast_http::http2::{Connection, HeadText, NewStream, StreamEnd};
use handfast_leg::runtime::Runtime;
use handfast_leg::{Broken, Leg, READ, Socket};
use handfast_net::clock::Moment;
use handfast_net::engine::TaskHandle;
use handfast_observe::cause::Cause;
use handfast_observe::reason::{CloseReason, Side, Step};

use crate::requests::head::content::Io;
use crate::requests::head::fault::Fault;

/// Reads of a connection before the other tasks of its thread.
const MAX_READS: u32 = 4;

/// The clock of the bounds for abuse.
pub(crate) fn millis(moment: Moment) -> u64 {
    moment.nanos() / 1_000_000
}

/// The connection, as long as its task or a stream has it.
pub(crate) struct Http2Link {
    connection: RefCell<Connection<TaskHandle>>,
    /// The task that owns the socket.
    task: Cell<TaskHandle>,
    wake: fn(TaskHandle),
    /// The task was woken to send, and has not done so.
    is_notified: Cell<bool>,
    /// Reason why the transport ended.
    broken: RefCell<Option<CloseReason>>,
    /// The side of the peer.
    peer: Side,
}

impl fmt::Debug for Http2Link {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Http2Link").field("peer", &self.peer).finish_non_exhaustive()
    }
}

impl Http2Link {
    /// A new connection of the present task.
    pub(crate) fn new<R: Runtime>(settings: Settings, peer: Side) -> Rc<Self> {
        Rc::new(Self {
            connection: RefCell::new(Connection::new(settings)),
            task: Cell::new(R::task()),
            wake: R::wake_late,
            is_notified: Cell::new(false),
            broken: RefCell::default(),
            peer,
        })
    }

    /// The present task owns the socket from now on.
    pub(crate) fn adopt<R: Runtime>(&self) {
        self.task.set(R::task());
    }

    /// Returns the side of the peer.
    pub(crate) fn peer(&self) -> Side {
        self.peer
    }

    /// Looks at the connection.
    pub(crate) fn inspect<T>(&self, inspect: impl FnOnce(&Connection<TaskHandle>) -> T) -> T {
        inspect(&self.connection.borrow())
    }

    /// Changes the connection, and wakes those that something has changed for.
    pub(crate) fn with<T>(&self, change: impl FnOnce(&mut Connection<TaskHandle>) -> T) -> T {
        let mut connection = self.connection.borrow_mut();
        let result = change(&mut connection);
        if connection.has_woken() {
            connection.take_woken().for_each(self.wake);
        }
        if connection.has_output() && !self.is_notified.replace(true) {
            (self.wake)(self.task.get());
        }
        result
    }

    /// Makes the connection's task look around.
    pub(crate) fn wake_task(&self) {
        (self.wake)(self.task.get());
    }

    /// The transport ended, for this reason: no stream carries anything more.
    pub(crate) fn lose(&self, reason: CloseReason) {
        self.broken.borrow_mut().get_or_insert(reason);
        self.with(Connection::lose_streams);
    }

    /// Returns the fault for a stream that carries nothing more.
    pub(crate) fn fault(&self, end: StreamEnd) -> Fault {
        let reason = |cause| CloseReason::new(Step::Relay, self.peer, cause);
        let reset = |code| reason(Cause::StreamReset).because(format!("reset with {code}"));
        Fault::of(match end {
            StreamEnd::Reset(code) => reset(code),
            StreamEnd::Refused => reason(Cause::StreamReset).because("not processed (REFUSED_STREAM)"),
            StreamEnd::Broken(code, detail) => reason(Cause::Http2).because(format!("{detail} ({code})")),
            StreamEnd::Lost => match (self.inspect(Connection::error), &*self.broken.borrow()) {
                (Some(error), _) => reason(Cause::Http2).because(error.detail),
                (None, Some(broken)) => broken.clone(),
                (None, None) => reason(Cause::CLOSED_EARLY),
            },
        })
    }

    /// Reads what has come, and sends what there is; returns true if more may have come. `opened` takes requests that have begun, with their heads.
    ///
    /// **Errors**: the connection has ended; what is in the outbox was not sent.
    pub(crate) fn move_frames<S: Socket>(
        &self,
        leg: &mut Leg<S>,
        io: &mut Io<'_>,
        now: Moment,
        mut opened: impl FnMut(NewStream, &mut HeadText),
    ) -> Result<bool, CloseReason> {
        let mut reads = 0;
        while reads < MAX_READS && self.read(leg, io, now, &mut opened)? {
            reads += 1;
        }
        let sent = self.send(leg, io);
        sent.map_err(|broken| CloseReason::broken(Step::Relay, &broken))?;
        Ok(reads == MAX_READS)
    }

    /// Reads once, and handles what came; returns true if there may be more.
    fn read<S: Socket>(
        &self,
        leg: &mut Leg<S>,
        io: &mut Io<'_>,
        now: Moment,
        opened: impl FnMut(NewStream, &mut HeadText),
    ) -> Result<bool, CloseReason> {
        let broken = |broken: Broken| CloseReason::broken(Step::Relay, &broken);
        if leg.has_ended() {
            return Err(self.ended());
        }
        let got = leg.read(io.scratch, READ).map_err(broken)?;
        if !got.moved {
            return Ok(false);
        }
        if got.length > 0 {
            let input = leg.plaintext(&io.scratch.received, &io.scratch.plaintext, got.length);
            self.take(input, &mut io.buffers.head, now, opened)?;
        }
        if leg.is_secured() {
            leg.answer(io.scratch, got.failed.is_some()).map_err(broken)?;
        }
        got.failed.map_or(Ok(true), |failed| Err(broken(failed)))
    }

    /// Handles bytes that came.
    ///
    /// **Errors**: see [`move_frames`](Self::move_frames).
    pub(crate) fn take(
        &self,
        input: &[u8],
        head: &mut HeadText,
        now: Moment,
        mut opened: impl FnMut(NewStream, &mut HeadText),
    ) -> Result<(), CloseReason> {
        // What answers it is sent by the next call of `send`.
        self.is_notified.set(true);
        let mut at = 0;
        loop {
            match self.with(|connection| connection.receive(input, &mut at, head, millis(now))) {
                Ok(Some(new)) => opened(new, head),
                Ok(None) => return Ok(()),
                Err(error) => {
                    let reason = CloseReason::new(Step::Relay, self.peer, Cause::Http2);
                    return Err(reason.because(format!("{} ({})", error.detail, error.code)));
                }
            }
        }
    }

    /// The peer has closed the connection cleanly.
    fn ended(&self) -> CloseReason {
        let is_at_rest = self.inspect(|connection| connection.open_streams() == 0);
        CloseReason::new(
            Step::Relay,
            self.peer,
            if is_at_rest { Cause::Finished } else { Cause::CLOSED_EARLY },
        )
    }

    /// Sends the outbox, as far as the socket takes it.
    ///
    /// **Errors**: the socket's fault.
    pub(crate) fn send<S: Socket>(&self, leg: &mut Leg<S>, io: &mut Io<'_>) -> Result<(), Broken> {
        self.is_notified.set(true);
        loop {
            while leg.is_full() && leg.flush()? {}
            if leg.is_full() {
                break;
            }
            let output = self.with(Connection::take_output);
            if output.is_empty() {
                break;
            }
            let written = leg.write(&output, &mut io.scratch.records);
            self.with(|connection| connection.reuse(output));
            written?;
        }
        // A full socket wakes the task, which sends then.
        self.is_notified.set(leg.is_full());
        Ok(())
    }
}
