//! The client's side of HTTP/2: as many requests at once as both sides permit, over [`Connection`].
//!
//! In: requests, and bytes of the target. Out: the outbox of a turn, and the events of each request. The connection reports the
//! requests for which something has changed, and only these are looked at.

use std::sync::Arc;

use handfast_http::http1::{Framing, Method};
use handfast_http::http2::connection::{RECEIVE_BUDGET, Settings};
use handfast_http::http2::frame::ErrorCode;
use handfast_http::http2::{Connection, End, HeadFault, HeadText, Role, StreamEnd, StreamKey};
use handfast_net::clock::Moment;

use super::in_flight::{Lost, Requests, TransportEnd};
use super::protocol::{LIMITS, Protocol};
use crate::failure::{Cause, Step, StepFailure};
use crate::requests::{PreparedRequest, WrittenHead};

/// A request on its stream.
struct Stream {
    key: StreamKey,
    request: Arc<PreparedRequest>,
    /// Bytes of its content that were given to the connection.
    sent: usize,
}

/// A connection of HTTP/2. A stream's owner is the place of its request.
pub(super) struct Http2Client {
    connection: Connection<usize>,
    streams: Vec<Option<Stream>>,
    /// Receives decoded heads.
    text: HeadText,
    /// Places that were woken, while they are looked at.
    woken: Vec<usize>,
    /// Greatest id of a stream that has begun, and of one whose head was put into an output.
    last_begun: u32,
    last_sent: u32,
    has_ended: bool,
}

impl Http2Client {
    /// Opens at most `streams` at once.
    pub(super) fn new(streams: u32) -> Self {
        // Content is taken at once, and a small window would add round trips to the figures.
        let settings = Settings {
            role: Role::Client,
            streams,
            window: RECEIVE_BUDGET,
            budget: RECEIVE_BUDGET,
            head: LIMITS,
        };
        Self {
            connection: Connection::new(settings),
            streams: Vec::new(),
            text: HeadText::default(),
            woken: Vec::new(),
            last_begun: 0,
            last_sent: 0,
            has_ended: false,
        }
    }

    /// Advances the requests for which something has changed.
    fn advance_woken(&mut self, now: Moment, requests: &mut Requests) {
        if !self.connection.has_woken() {
            return;
        }
        let mut woken = std::mem::take(&mut self.woken);
        woken.extend(self.connection.take_woken());
        // Each read of a stream wakes its owner.
        woken.sort_unstable();
        woken.dedup();
        for place in woken.drain(..) {
            self.advance(place, now, requests);
        }
        self.woken = woken;
    }

    /// Moves what there is for a request in both directions.
    fn advance(&mut self, place: usize, now: Moment, requests: &mut Requests) {
        self.put_content(place);
        let Some(Some(stream)) = self.streams.get(place) else { return };
        let key = stream.key;
        while !requests.has_head(place)
            && let Some((head, is_last)) = self.connection.take_response_head(key)
        {
            if let Err(fault) = self.take_head(place, head, is_last, now, requests) {
                // RFC 9113 §8.1.1.
                self.remove_with(place, ErrorCode::PROTOCOL_ERROR);
                return requests.refuse(place, sentence(&fault));
            }
        }
        if requests.has_head(place) {
            let content = self.connection.take_content(key);
            requests.take_content(place, content.as_slice());
            let count = content.as_slice().len();
            self.connection.give_back(key, content, count);
            if self.connection.has_ended(key) {
                self.remove(place);
                return requests.complete(place, now);
            }
        } else if self.connection.has_content(key) || self.connection.has_ended(key) {
            self.remove(place);
            return requests.refuse(place, "content before the head of an answer".to_owned());
        }
        // The end of the transport has its own reason, see `end`.
        if let Some(end) = self.connection.end(key).filter(|end| *end != StreamEnd::Lost) {
            self.remove(place);
            lose(place, end, requests);
        }
    }

    /// **Errors**: the head is malformed.
    fn take_head(
        &mut self,
        place: usize,
        mut head: Box<HeadText>,
        is_last: bool,
        now: Moment,
        requests: &mut Requests,
    ) -> Result<(), HeadFault> {
        let Some(Some(stream)) = self.streams.get(place) else { return Ok(()) };
        let head = head.response(!is_last)?;
        if head.is_interim() {
            return Ok(());
        }
        let method = Method::new(stream.request.method.as_bytes()).unwrap_or(Method::GET);
        if let Framing::Length(length) = head.framing(method) {
            self.connection.expect_content(stream.key, length);
        }
        requests.take_head(place, &head, now);
        Ok(())
    }

    /// Gives the connection as much of a request's content as it accepts.
    fn put_content(&mut self, place: usize) {
        let Some(Some(stream)) = self.streams.get_mut(place) else { return };
        while stream.sent < stream.request.body.len() && self.connection.accepts(stream.key) {
            let left = &stream.request.body[stream.sent..];
            let piece = &left[..left.len().min(self.connection.room(stream.key))];
            stream.sent += piece.len();
            let end = (stream.sent == stream.request.body.len()).then_some(End::Plain);
            // A stream that has ended is seen by its end.
            if self.connection.send(stream.key, piece, end).is_err() {
                break;
            }
        }
    }

    /// Forgets a stream, which is reset unless it is over.
    fn remove(&mut self, place: usize) {
        self.remove_with(place, ErrorCode::CANCEL);
    }

    fn remove_with(&mut self, place: usize, code: ErrorCode) {
        if let Some(stream) = self.streams.get_mut(place).and_then(Option::take) {
            self.connection.release(stream.key, code);
        }
    }
}

fn sentence(fault: &HeadFault) -> String {
    match fault {
        HeadFault::Malformed(detail) => (*detail).to_owned(),
        HeadFault::Refused(error) => error.to_string(),
    }
}

/// The stream of a request ended without the end of an answer.
fn lose(place: usize, end: StreamEnd, requests: &mut Requests) {
    let has_head = requests.has_head(place);
    let failed = |cause, detail: String| Lost::Failed(StepFailure::new(Step::Exchange, cause, detail));
    let cut = if has_head { Cause::Truncated } else { Cause::Http };
    let lost = match end {
        StreamEnd::Refused if has_head => failed(cut, "the target went away within a body".to_owned()),
        StreamEnd::Refused => {
            let detail = "the target did not process the request (REFUSED_STREAM)";
            Lost::NotSeen(StepFailure::new(Step::Exchange, Cause::Http, detail))
        }
        StreamEnd::Reset(code) if has_head => {
            failed(cut, format!("the target reset the stream within a body: {code}"))
        }
        StreamEnd::Reset(code) => failed(cut, format!("the target reset the stream: {code}")),
        StreamEnd::Broken(code, detail) => failed(Cause::Http, format!("{detail} ({code})")),
        StreamEnd::Lost => failed(cut, "the connection ended".to_owned()),
    };
    requests.lose(place, lost);
}

impl Protocol for Http2Client {
    fn has_room(&self) -> bool {
        !self.has_ended && self.connection.can_open()
    }

    fn is_closed(&self) -> bool {
        self.has_ended || self.connection.begins_no_more()
    }

    fn fault(&self) -> Option<String> {
        self.connection.error().map(|error| format!("{} ({})", error.detail, error.code))
    }

    fn begin(&mut self, place: usize, request: Arc<PreparedRequest>, requests: &mut Requests) {
        let WrittenHead::Http2 { head, scheme } = &request.head else { return };
        let opened = self.connection.open(place, &head.head(), scheme, request.body.is_empty());
        let Some(key) = opened else {
            let detail = "the target permits no further stream";
            return requests
                .lose(place, Lost::NotSeen(StepFailure::new(Step::Exchange, Cause::Http, detail)));
        };
        self.last_begun = key.id();
        if self.streams.len() <= place {
            self.streams.resize_with(place + 1, || None);
        }
        self.streams[place] = Some(Stream { key, request, sent: 0 });
        self.put_content(place);
    }

    fn receive(&mut self, bytes: &[u8], now: Moment, requests: &mut Requests) {
        let mut at = 0;
        // A client's connection begins no streams by itself.
        let received = self.connection.receive(bytes, &mut at, &mut self.text, millis(now));
        self.advance_woken(now, requests);
        if received.is_err() {
            let detail = self.fault().unwrap_or_default();
            let failure = StepFailure::new(Step::Exchange, Cause::Http, detail);
            let end = TransportEnd { unanswered: failure.clone(), cut_short: failure, is_clean: false };
            self.end(&end, now, requests);
        }
    }

    fn end(&mut self, end: &TransportEnd, _: Moment, requests: &mut Requests) {
        self.has_ended = true;
        for place in 0..self.streams.len() {
            let Some(stream) = &self.streams[place] else { continue };
            let is_seen = stream.key.id() <= self.last_sent;
            self.remove(place);
            requests.lose_with(place, end, is_seen);
        }
    }

    fn output(&mut self, spent: Vec<u8>, now: Moment, requests: &mut Requests) -> Vec<u8> {
        self.connection.reuse(spent);
        let output = self.connection.take_output();
        self.last_sent = self.last_begun;
        // There may be room for more content.
        self.advance_woken(now, requests);
        output
    }

    fn give_up(&mut self, place: usize) {
        self.remove(place);
    }
}

fn millis(moment: Moment) -> u64 {
    moment.nanos() / 1_000_000
}
