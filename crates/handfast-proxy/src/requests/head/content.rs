//! Content of messages: where it comes from, where it goes, and one side of HTTP/1 for both.
//!
//! In: legs and streams. Out: content moved piece by piece, never a whole body. A [`Source`] reads only when its [`Sink`] accepts more, so
//! each direction keeps at most one read (64 KiB).

use handfast_http::http1::{
    BodyReader, CHUNK_HEAD_LIMIT, Field, Framing, HeadLimits, Piece, chunk_head, write_last_chunk,
};
use handfast_leg::{Leg, READ, Socket};
use handfast_observe::cause::Cause;
use handfast_observe::reason::{CloseReason, Side, Step};
use handfast_tls::buffer::{Buffer, Scratch};
use handfast_tls::session::Session;

use crate::requests::head::fault::Fault;
use crate::worker::context::HttpBuffers;

/// Content of this size is sent from where it is, without a copy behind what else goes out.
const MIN_DIRECT_BYTES: usize = 4096;

/// Context of the steps of an exchange: the thread's buffers, lent between two waits.
pub(crate) struct Io<'a> {
    pub(crate) scratch: &'a mut Scratch,
    pub(crate) buffers: &'a mut HttpBuffers,
}

/// Bytes to send next, and room to encrypt them.
pub(crate) struct Output<'a> {
    pub(crate) out: &'a mut Vec<u8>,
    pub(crate) records: &'a mut Buffer,
}

impl Io<'_> {
    pub(crate) fn output(&mut self) -> Output<'_> {
        Output { out: &mut self.buffers.out, records: &mut self.scratch.records }
    }
}

/// Destination of content. Bytes that were put are sent by [`Sink::flush`], with everything that was put before.
pub(crate) trait Sink {
    /// Returns true if more may be put; if not, the task is woken when it may.
    fn accepts(&mut self, io: &mut Io<'_>) -> Result<bool, Fault>;

    /// Returns the number of bytes that a source should put at once, at most. Without a default: a sink around another one that forgot to
    /// forward it would lift the bound.
    fn room(&self) -> usize;

    /// Puts content.
    fn put(&mut self, data: &[u8], output: &mut Output<'_>) -> Result<(), Fault>;

    /// Puts the end of the message, with its trailer section.
    ///
    /// **Errors**: there was less content than its head announces: the beginning of the next message would be ambiguous.
    fn put_end(&mut self, text: &[u8], trailers: &[Field], output: &mut Output<'_>) -> Result<(), Fault>;

    /// Sends what was put.
    fn flush(&mut self, output: &mut Output<'_>) -> Result<(), Fault>;

    /// Returns true if the end of the message was put and the kernel has everything.
    fn is_done(&self) -> bool;
}

/// Source of content.
pub(crate) trait Source {
    /// Moves the available content, one read at most, and sends it; returns true if anything moved. Only when `to` accepts.
    fn pump(&mut self, to: &mut dyn Sink, io: &mut Io<'_>) -> Result<bool, Fault>;

    /// Returns true if its message has ended.
    fn has_ended(&self) -> bool;
}

/// Drops content.
#[derive(Debug, Default)]
pub(crate) struct Discard {
    pub(crate) bytes: u64,
}

impl Sink for Discard {
    fn accepts(&mut self, _: &mut Io<'_>) -> Result<bool, Fault> {
        Ok(true)
    }

    fn room(&self) -> usize {
        READ
    }

    fn put(&mut self, data: &[u8], _: &mut Output<'_>) -> Result<(), Fault> {
        self.bytes += data.len() as u64;
        Ok(())
    }

    fn put_end(&mut self, _: &[u8], _: &[Field], _: &mut Output<'_>) -> Result<(), Fault> {
        Ok(())
    }

    fn flush(&mut self, _: &mut Output<'_>) -> Result<(), Fault> {
        Ok(())
    }

    fn is_done(&self) -> bool {
        true
    }
}

/// The message that is read from a leg, and bytes behind it.
#[derive(Debug)]
pub(crate) struct Incoming {
    /// Received and not consumed.
    pub(crate) input: Vec<u8>,
    /// `input` has bytes that nothing has looked at since they came.
    is_fresh: bool,
    reader: BodyReader,
    ended: bool,
    /// Bytes of content so far.
    pub(crate) bytes: u64,
    /// Most of them.
    limit: Option<u64>,
}

impl Incoming {
    /// Before the first message; `input` was received with the handshake.
    pub(crate) fn new(input: Vec<u8>) -> Self {
        let reader = BodyReader::Length(0);
        Self { is_fresh: !input.is_empty(), input, reader, ended: true, bytes: 0, limit: None }
    }

    /// A head of this length was read; its content comes next.
    pub(crate) fn begin(&mut self, head: usize, framing: Framing, limits: &HeadLimits, is_response: bool) {
        self.input.drain(..head);
        self.is_fresh = !self.input.is_empty();
        self.reader = BodyReader::new(framing, limits, is_response);
        self.ended = matches!(framing, Framing::None | Framing::Length(0));
        (self.bytes, self.limit) = (0, None);
    }

    pub(crate) fn limit(&mut self, limit: Option<u64>) {
        self.limit = limit;
    }

    pub(crate) fn has_ended(&self) -> bool {
        self.ended
    }

    /// Reads more of a head, at most `most` bytes; returns true if anything came. An end is none of a message: the caller looks at the leg.
    pub(crate) fn read_head<S: Socket, T: Session>(
        &mut self,
        leg: &mut Leg<S, T>,
        most: usize,
        io: &mut Io<'_>,
    ) -> Result<bool, Fault> {
        if std::mem::take(&mut self.is_fresh) {
            return Ok(true);
        }
        if self.input.capacity() == 0
            && let Some(spare) = io.buffers.spare.pop()
        {
            self.input = spare;
        }
        let outcome = read(leg, most, io.scratch, |bytes, _| {
            self.input.extend_from_slice(bytes);
            Ok(())
        });
        self.give_back(io.buffers);
        outcome
    }

    /// Marks the received bytes to be parsed again before anything is read.
    pub(crate) fn mark_unparsed(&mut self) {
        self.is_fresh = !self.input.is_empty();
    }

    /// A connection owns no buffer while nothing is in it.
    pub(crate) fn give_back(&mut self, buffers: &mut HttpBuffers) {
        if self.input.is_empty() && self.input.capacity() > 0 {
            let spare = std::mem::take(&mut self.input);
            if buffers.spare.len() < MAX_SPARE_BUFFERS && spare.capacity() <= MAX_SPARE_BYTES {
                buffers.spare.push(spare);
            }
        }
    }

    /// Moves content from a leg; see [`Source::pump`].
    pub(crate) fn pump<S: Socket, T: Session>(
        &mut self,
        leg: &mut Leg<S, T>,
        to: &mut dyn Sink,
        io: &mut Io<'_>,
    ) -> Result<bool, Fault> {
        let moved = self.move_content(leg, to, io);
        if moved.is_err() {
            // With TLS, content and the end that cuts it off can come in one read. Earlier content is sent nevertheless; if that fails
            // too, the first fault is the true one.
            let _ = to.flush(&mut io.output());
        }
        moved
    }

    fn move_content<S: Socket, T: Session>(
        &mut self,
        leg: &mut Leg<S, T>,
        to: &mut dyn Sink,
        io: &mut Io<'_>,
    ) -> Result<bool, Fault> {
        let HttpBuffers { fields, out, .. } = &mut *io.buffers;
        let moved = if std::mem::take(&mut self.is_fresh) {
            self.take_input(to, fields, &mut Output { out, records: &mut io.scratch.records })?;
            true
        } else {
            read(leg, to.room(), io.scratch, |bytes, records| {
                let output = &mut Output { out, records };
                if self.input.is_empty() {
                    let consumed = self.take(bytes, to, fields, output)?;
                    self.input.extend_from_slice(&bytes[consumed..]);
                    self.is_fresh = self.ended && !self.input.is_empty();
                    return Ok(());
                }
                self.input.extend_from_slice(bytes);
                self.take_input(to, fields, output)
            })?
        };
        // With TLS the end may have come with the head, and then nothing more is read.
        let is_over = leg.has_ended() && !self.ended;
        if is_over {
            if !self.reader.ends_with_connection() {
                return Err(Self::cut_off(leg));
            }
            self.ended = true;
            to.put_end(&[], &[], &mut Output { out, records: &mut io.scratch.records })?;
        }
        if moved || is_over {
            to.flush(&mut io.output())?;
        }
        self.give_back(io.buffers);
        Ok(moved || is_over)
    }

    /// The leg ended before its message.
    fn cut_off<S: Socket, T: Session>(leg: &Leg<S, T>) -> Fault {
        let side = Side::from(leg.side());
        let reason = CloseReason::new(Step::Relay, side, Cause::CLOSED_EARLY);
        Fault::of(reason.because("before the end of its message"))
    }

    fn take_input(
        &mut self,
        to: &mut dyn Sink,
        fields: &mut Vec<Field>,
        output: &mut Output<'_>,
    ) -> Result<(), Fault> {
        let mut input = std::mem::take(&mut self.input);
        let consumed = self.take(&input, to, fields, output)?;
        input.drain(..consumed);
        self.is_fresh = self.ended && !input.is_empty();
        self.input = input;
        Ok(())
    }

    /// Passes on the content in these bytes; the number of those that were consumed.
    fn take(
        &mut self,
        bytes: &[u8],
        to: &mut dyn Sink,
        fields: &mut Vec<Field>,
        output: &mut Output<'_>,
    ) -> Result<usize, Fault> {
        let mut at = 0;
        while !self.ended {
            let rest = &bytes[at..];
            match self.reader.next(rest, fields).map_err(|error| Fault::message(Step::Relay, &error))? {
                Piece::Data(range) => {
                    at += range.end;
                    self.bytes += range.len() as u64;
                    if self.limit.is_some_and(|limit| self.bytes > limit) {
                        return Err(Fault::new(Step::Relay, Side::Client, Cause::BodyTooLarge, 413));
                    }
                    to.put(&rest[range], output)?;
                }
                Piece::More { consumed } => return Ok(at + consumed),
                Piece::End { consumed, trailers } => {
                    at += consumed;
                    self.ended = true;
                    to.put_end(&rest[trailers], fields, output)?;
                }
            }
        }
        Ok(at)
    }
}

/// Buffers that a thread keeps for heads, and how large they may have become.
const MAX_SPARE_BUFFERS: usize = 16;
const MAX_SPARE_BYTES: usize = 65_536;

/// Reads a leg once, at most `most` bytes; returns true if anything came, its end included.
fn read<S: Socket, T: Session>(
    leg: &mut Leg<S, T>,
    most: usize,
    scratch: &mut Scratch,
    take: impl FnOnce(&[u8], &mut Buffer) -> Result<(), Fault>,
) -> Result<bool, Fault> {
    if leg.has_ended() {
        return Ok(false);
    }
    let broken = |broken| Fault::leg(Step::Relay, &broken);
    let got = leg.read(scratch, most).map_err(broken)?;
    if !got.moved {
        return Ok(false);
    }
    let has_failed = got.failed.is_some();
    if got.length > 0 {
        let Scratch { received, plaintext, records, .. } = scratch;
        take(leg.plaintext(received, plaintext, got.length), records)?;
    }
    if leg.is_secured() {
        leg.answer(scratch, has_failed).map_err(broken)?;
    }
    got.failed.map_or(Ok(true), |failed| Err(broken(failed)))
}

/// The message that is written to a leg.
#[derive(Debug)]
pub(crate) struct Outgoing {
    framing: Framing,
    ended: bool,
    /// Bytes of content so far.
    pub(crate) bytes: u64,
}

impl Outgoing {
    /// A message whose head was put.
    pub(crate) fn new(framing: Framing) -> Self {
        Self { framing, ended: false, bytes: 0 }
    }

    /// A message that was put whole, with this number of bytes of content.
    pub(crate) fn whole(bytes: u64) -> Self {
        Self { framing: Framing::None, ended: true, bytes }
    }

    pub(crate) fn has_ended(&self) -> bool {
        self.ended
    }

    /// Returns true if the message has no content.
    pub(crate) fn is_empty(&self) -> bool {
        matches!(self.framing, Framing::None | Framing::Length(0))
    }

    /// See [`Sink::accepts`].
    pub(crate) fn accepts<S: Socket, T: Session>(leg: &mut Leg<S, T>) -> Result<bool, Fault> {
        // Until nothing moves: only then is the task woken when there is room.
        while leg.is_full() && leg.flush().map_err(|broken| Fault::leg(Step::Relay, &broken))? {}
        Ok(!leg.is_full() && !leg.refuses())
    }

    /// See [`Sink::put`].
    pub(crate) fn put<S: Socket, T: Session>(
        &mut self,
        leg: &mut Leg<S, T>,
        data: &[u8],
        Output { out, records }: &mut Output<'_>,
    ) -> Result<(), Fault> {
        self.bytes += data.len() as u64;
        if matches!(self.framing, Framing::Length(length) if self.bytes > length) {
            return Err(other_length(leg.side().into()));
        }
        match self.framing {
            Framing::Chunked => {
                out.extend_from_slice(chunk_head(data.len(), &mut [0; CHUNK_HEAD_LIMIT]));
                out.extend_from_slice(data);
                out.extend_from_slice(b"\r\n");
            }
            Framing::None => {}
            Framing::Length(_) | Framing::UntilClose if out.is_empty() && data.len() >= MIN_DIRECT_BYTES => {
                leg.write(data, records).map_err(|broken| Fault::leg(Step::Relay, &broken))?;
            }
            Framing::Length(_) | Framing::UntilClose => out.extend_from_slice(data),
        }
        Ok(())
    }

    /// See [`Sink::put_end`].
    pub(crate) fn put_end(
        &mut self,
        side: Side,
        text: &[u8],
        trailers: &[Field],
        output: &mut Output<'_>,
    ) -> Result<(), Fault> {
        if let Framing::Length(length) = self.framing
            && self.bytes != length
        {
            return Err(other_length(side));
        }
        self.ended = true;
        if self.framing == Framing::Chunked {
            write_last_chunk(output.out, text, trailers, |_| false);
        }
        Ok(())
    }
}

/// The message that goes to this side has another length than its head announces; HTTP/2 can carry such a one.
fn other_length(to: Side) -> Fault {
    let (side, cause, status) = match to {
        Side::Client => (Side::Backend, Cause::HttpResponse, 502),
        _ => (Side::Client, Cause::HttpRequest, 400),
    };
    Fault::new(Step::Relay, side, cause, status).because("its content has another length than Content-Length")
}

/// Sends what was put.
pub(crate) fn flush<S: Socket, T: Session>(
    leg: &mut Leg<S, T>,
    output: &mut Output<'_>,
) -> Result<(), Fault> {
    if output.out.is_empty() {
        return Ok(());
    }
    let written = leg.write(output.out, output.records);
    output.out.clear();
    written.map_err(|broken| Fault::leg(Step::Relay, &broken))
}

#[cfg(test)]
mod tests;
