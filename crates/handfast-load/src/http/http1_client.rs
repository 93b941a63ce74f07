//! The client's side of HTTP/1.1: one request after the other on a connection.
//!
//! In: requests, and bytes of the target. Out: bytes to send, and the events of the request. It reads no clock and no socket.

use std::sync::Arc;

use handfast_http::http1::{
    BodyReader, Field, Framing, HeadError, HeadProgress, Method, Piece, parse_response,
};
use handfast_net::clock::Moment;

use super::in_flight::{Lost, Requests, TransportEnd};
use super::protocol::{LIMITS, Protocol};
use crate::failure::{Cause, Step, StepFailure};
use crate::requests::{PreparedRequest, WrittenHead};

/// Content that is put behind a head or a piece before it: what one write takes.
const PIECE: usize = 65_536;

/// The request that is under way.
struct Current {
    place: usize,
    /// Its answer was read to its end, and only its own content is still to be sent.
    is_answered: bool,
    /// Framing of the answer, behind its head.
    reader: Option<BodyReader>,
    request: Arc<PreparedRequest>,
    is_head_sent: bool,
    /// Bytes of its content that were put.
    sent: usize,
    /// The first byte of the answer.
    first_byte: Option<Moment>,
}

impl Current {
    fn is_sent(&self) -> bool {
        self.is_head_sent && self.sent == self.request.body.len()
    }
}

/// A connection of HTTP/1.1.
pub(super) struct Http1Client {
    current: Option<Current>,
    /// Bytes that came and are not read yet: the beginning of a head or a line.
    input: Vec<u8>,
    progress: HeadProgress,
    fields: Vec<Field>,
    /// No further request can begin.
    is_closed: bool,
    /// The reason, if the target sent what it must not send.
    fault: Option<String>,
}

impl Http1Client {
    pub(super) fn new() -> Self {
        Self {
            current: None,
            input: Vec::new(),
            progress: HeadProgress::default(),
            fields: Vec::new(),
            is_closed: false,
            fault: None,
        }
    }

    /// Reads as much of the answer as these bytes have; the number of bytes read.
    fn read(&mut self, bytes: &[u8], now: Moment, requests: &mut Requests) -> Result<usize, HeadError> {
        let mut at = 0;
        loop {
            let Some(current) = self.current.as_mut().filter(|current| !current.is_answered) else {
                return Ok(at);
            };
            let rest = &bytes[at..];
            let Some(reader) = &mut current.reader else {
                let parsed = parse_response(rest, &mut self.progress, &mut self.fields, &LIMITS)?;
                let Some(head) = parsed else { return Ok(at) };
                at += head.length;
                if head.is_interim() {
                    continue;
                }
                let method = Method::new(current.request.method.as_bytes()).unwrap_or(Method::GET);
                let framing = head.framing(method);
                // 101 was not requested: what follows is of another protocol.
                self.is_closed |= !head.keeps_open || framing == Framing::UntilClose || head.status == 101;
                requests.take_head(current.place, &head, current.first_byte.unwrap_or(now));
                current.reader = Some(BodyReader::new(framing, &LIMITS, true));
                continue;
            };
            match reader.next(rest, &mut self.fields)? {
                Piece::Data(range) => {
                    at += range.end;
                    requests.take_content(current.place, &rest[range]);
                }
                Piece::More { consumed } => return Ok(at + consumed),
                Piece::End { consumed, .. } => {
                    at += consumed;
                    requests.complete(current.place, now);
                    current.is_answered = true;
                    self.finish_current();
                }
            }
        }
    }

    /// Forgets a request that was sent and answered.
    fn finish_current(&mut self) {
        if self.current.as_ref().is_some_and(|current| current.is_answered && current.is_sent()) {
            self.current = None;
        }
    }

    /// An answer with more after it is none: where it ends is not known.
    fn reject_excess(&mut self, count: usize, requests: &mut Requests) {
        let what = format!("{count} bytes behind the end of the last answer");
        self.is_closed = true;
        self.fault = Some(format!("the target sent more than its answer: {what}"));
        self.spoil_last(requests);
    }

    /// The last answer fails with the connection, unless it was taken.
    fn spoil_last(&self, requests: &mut Requests) {
        let detail = self.fault.clone().unwrap_or_default();
        if let Some(last) = requests.last_finished().filter(|last| last.outcome.is_ok()) {
            last.outcome = Err(Lost::Failed(StepFailure::new(Step::Exchange, Cause::Http, detail)));
        }
    }
}

impl Protocol for Http1Client {
    fn has_room(&self) -> bool {
        self.current.is_none() && !self.is_closed
    }

    fn is_closed(&self) -> bool {
        self.is_closed
    }

    fn fault(&self) -> Option<String> {
        self.fault.clone()
    }

    fn begin(&mut self, place: usize, request: Arc<PreparedRequest>, _: &mut Requests) {
        self.current = Some(Current {
            place,
            is_answered: false,
            reader: None,
            request,
            is_head_sent: false,
            sent: 0,
            first_byte: None,
        });
    }

    fn receive(&mut self, bytes: &[u8], now: Moment, requests: &mut Requests) {
        if self.fault.is_some() {
            return;
        }
        let is_unread = |current: &Current| !current.is_head_sent && !current.is_answered;
        if self.current.as_ref().is_none_or(is_unread) {
            self.is_closed = true;
            self.fault = Some(format!("{} bytes came without a request", bytes.len()));
            // Where they come in the same turn as the answer, they are behind it.
            self.spoil_last(requests);
            // A target that closes may send its reason before, which answers nothing.
            if let Some(Current { place, .. }) = self.current.take() {
                let detail = self.fault.clone().unwrap_or_default();
                let failure = StepFailure::new(Step::Exchange, Cause::Http, detail);
                requests.lose(place, Lost::NotSeen(failure));
            }
            return;
        }
        if let Some(current) = &mut self.current {
            current.first_byte.get_or_insert(now);
        }
        let mut input = std::mem::take(&mut self.input);
        let kept = !input.is_empty();
        if kept {
            input.extend_from_slice(bytes);
        }
        let whole = if kept { &input[..] } else { bytes };
        let read = self.read(whole, now, requests);
        match read {
            Ok(count) => {
                let left = whole.len() - count;
                let has_answer = self.current.as_ref().is_none_or(|current| current.is_answered);
                let is_switched = has_answer && self.is_closed && is_switched(requests);
                if has_answer && left > 0 && !is_switched {
                    self.reject_excess(left, requests);
                } else if !has_answer && kept {
                    input.drain(..count);
                    self.input = input;
                } else if !has_answer {
                    self.input.extend_from_slice(&bytes[count..]);
                }
            }
            Err(error) => {
                // However the target ends after it: this is no answer.
                self.is_closed = true;
                self.fault = Some(error.to_string());
                if let Some(Current { place, is_answered: false, .. }) = self.current.take() {
                    requests.refuse(place, error.to_string());
                }
            }
        }
    }

    fn end(&mut self, end: &TransportEnd, now: Moment, requests: &mut Requests) {
        self.is_closed = true;
        let Some(current) = self.current.take().filter(|current| !current.is_answered) else { return };
        let ends_with_it = current.reader.as_ref().is_some_and(BodyReader::ends_with_connection);
        if ends_with_it && end.is_clean {
            requests.complete(current.place, now);
        } else {
            requests.lose_with(current.place, end, current.is_head_sent);
        }
    }

    fn output(&mut self, mut spent: Vec<u8>, _: Moment, _: &mut Requests) -> Vec<u8> {
        spent.clear();
        let Some(current) = &mut self.current else { return spent };
        if !current.is_head_sent {
            if let WrittenHead::Http1(text) = &current.request.head {
                spent.extend_from_slice(text);
            }
            current.is_head_sent = true;
        }
        let left = &current.request.body[current.sent..];
        let piece = &left[..left.len().min(PIECE.saturating_sub(spent.len()))];
        spent.extend_from_slice(piece);
        current.sent += piece.len();
        self.finish_current();
        spent
    }

    /// There is only the connection to end.
    fn give_up(&mut self, _: usize) {
        self.current = None;
        self.is_closed = true;
    }
}

/// Returns true if the last answer changed the protocol.
fn is_switched(requests: &mut Requests) -> bool {
    let last = requests.last_finished().and_then(|last| last.outcome.as_ref().ok());
    last.is_some_and(|answer| answer.status == http::StatusCode::SWITCHING_PROTOCOLS)
}
