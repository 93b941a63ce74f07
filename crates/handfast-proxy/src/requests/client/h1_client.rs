//! A client that speaks HTTP/1: its requests, and the responses to it.

use handfast_config::model::HalfClose;
use handfast_http::http1::{
    Field, Framing, HeadEnd, HeadProgress, ResponseHead, Version, end_head, parse_request, push_field,
    write_fields, write_status_line,
};
use handfast_leg::{Broken, Leg, READ, Socket};
use handfast_net::clock::Moment;
use handfast_observe::cause::Cause;
use handfast_observe::reason::{CloseReason, Side, Step};
use handfast_observe::request_record::HttpVersion;
use handfast_tls::buffer::Buffer;

use crate::backends::connector::Cancellation;
use crate::requests::client::{After, Client};
use crate::requests::decide::connection::HttpConnection;
use crate::requests::decide::own_response::OwnResponse;
use crate::requests::decide::request::{Refused, Request};
use crate::requests::decide::rules::has_field;
use crate::requests::head::content::{Incoming, Io, Outgoing, Output, Sink, Source, flush};
use crate::requests::head::fault::Fault;
use crate::worker::waiting_client;

/// Outcome of a read for a head.
#[derive(Debug)]
pub(crate) enum HeadRead {
    Whole(Box<Request>),
    /// Something came, and more must.
    Part,
    /// Nothing came.
    Nothing,
}

/// A client's connection in HTTP/1.
#[derive(Debug)]
pub(crate) struct Http1Client<S> {
    pub(crate) leg: Leg<S>,
    pub(crate) incoming: Incoming,
    outgoing: Outgoing,
    progress: HeadProgress,
    /// Time of the first byte of the present head; NEVER between two requests.
    pub(crate) head_began: Moment,
    half_close: HalfClose,
    /// Responses that go with the next one, whose request has come already.
    held: Vec<u8>,
}

/// Bytes of responses that wait for the next one.
const MAX_HELD: usize = 16_384;

impl<S: Socket> Http1Client<S> {
    /// `first`: what came with the handshake.
    pub(crate) fn new(leg: Leg<S>, first: Vec<u8>, half_close: HalfClose) -> Self {
        let (incoming, outgoing) = (Incoming::new(first), Outgoing::new(Framing::None));
        let progress = HeadProgress::default();
        Self { leg, incoming, outgoing, progress, head_began: Moment::NEVER, half_close, held: Vec::new() }
    }

    /// Sends the responses that were held, before anything is waited for.
    pub(crate) fn send_held(&mut self) -> Result<(), Broken> {
        if self.held.is_empty() {
            return Ok(());
        }
        let held = std::mem::take(&mut self.held);
        self.leg.write(&held, &mut Buffer::default())
    }

    /// Returns true if this response can go with the next one: several requests came at once, and the next one is not waited for.
    fn holds(&self, count: usize) -> bool {
        let is_whole = self.outgoing.has_ended() && self.incoming.has_ended();
        is_whole && !self.incoming.input.is_empty() && self.held.len() + count <= MAX_HELD
    }

    /// **Errors**: it has ended its direction, and waits for nothing any more.
    fn check_end(&self) -> Result<(), CloseReason> {
        let is_over = self.half_close == HalfClose::Cancel && self.incoming.has_ended();
        if is_over && self.leg.socket().peer_ended() {
            let reason = CloseReason::new(Step::Relay, Side::Client, Cause::CLOSED_EARLY);
            return Err(reason.because("it left before the end of its response"));
        }
        Ok(())
    }

    /// Reads once for a request's head; see [`HeadRead`].
    ///
    /// **Errors**: with the request, if its head was accepted.
    pub(crate) fn read_request(
        &mut self,
        connection: &HttpConnection,
        io: &mut Io<'_>,
        now: Moment,
    ) -> Result<HeadRead, Refused> {
        if !self.incoming.read_head(&mut self.leg, READ, io)? {
            return Ok(HeadRead::Nothing);
        }
        if self.incoming.input.is_empty() {
            // The end of the connection, or a record without content.
            return Ok(HeadRead::Part);
        }
        if self.head_began == Moment::NEVER {
            self.head_began = now;
        }
        let request = self.parse(connection, io, now)?;
        Ok(request.map_or(HeadRead::Part, HeadRead::Whole))
    }

    fn parse(
        &mut self,
        connection: &HttpConnection,
        io: &mut Io<'_>,
        now: Moment,
    ) -> Result<Option<Box<Request>>, Refused> {
        let limits = &connection.http.model.head;
        let mut fields = std::mem::take(&mut io.buffers.fields);
        let parsed = parse_request(&self.incoming.input, &mut self.progress, &mut fields, limits);
        let outcome = match parsed {
            Ok(None) => Ok(None),
            Err(error) => Err(Fault::message(Step::Hello, &error).into()),
            Ok(Some(head)) => {
                let hello = now.since(self.head_began);
                let (length, framing) = (head.length, head.framing);
                let outcome = Request::new(&head, connection, HttpVersion::Http11, hello);
                self.incoming.begin(length, framing, limits, false);
                let of_service = connection.http.fallback.limits.body;
                self.incoming.limit(outcome.as_ref().map_or(of_service, |request| request.body_limit));
                self.progress = HeadProgress::default();
                self.head_began = Moment::NEVER;
                self.outgoing = Outgoing::new(Framing::None);
                outcome.map(Some)
            }
        };
        io.buffers.fields = fields;
        outcome
    }

    /// Returns true if bytes of a request came, and not its whole head.
    pub(crate) fn is_in_a_head(&self) -> bool {
        self.head_began != Moment::NEVER
    }
}

impl<S: Socket> Source for Http1Client<S> {
    fn pump(&mut self, to: &mut dyn Sink, io: &mut Io<'_>) -> Result<bool, Fault> {
        self.incoming.pump(&mut self.leg, to, io)
    }

    fn has_ended(&self) -> bool {
        self.incoming.has_ended()
    }
}

impl<S: Socket> Sink for Http1Client<S> {
    fn accepts(&mut self, _: &mut Io<'_>) -> Result<bool, Fault> {
        Outgoing::accepts(&mut self.leg)
    }

    fn room(&self) -> usize {
        READ
    }

    fn put(&mut self, data: &[u8], output: &mut Output<'_>) -> Result<(), Fault> {
        self.outgoing.put(&mut self.leg, data, output)
    }

    fn put_end(&mut self, text: &[u8], trailers: &[Field], output: &mut Output<'_>) -> Result<(), Fault> {
        self.outgoing.put_end(self.leg.side().into(), text, trailers, output)
    }

    fn flush(&mut self, output: &mut Output<'_>) -> Result<(), Fault> {
        if self.holds(output.out.len()) {
            self.held.append(output.out);
            return Ok(());
        }
        flush(&mut self.leg, output)
    }

    fn is_done(&self) -> bool {
        self.outgoing.has_ended() && !self.leg.is_full()
    }
}

impl<S: Socket> Cancellation for Http1Client<S> {
    fn before_wait(&mut self) -> Result<(), CloseReason> {
        self.send_held().map_err(|broken| CloseReason::broken(Step::Relay, &broken))?;
        waiting_client::watch(&mut self.leg)
    }

    fn after_wait(&mut self) -> Result<(), CloseReason> {
        waiting_client::check(&mut self.leg)?;
        self.check_end()
    }
}

impl<S: Socket> Client for Http1Client<S> {
    fn put_head(
        &mut self,
        head: &ResponseHead<'_>,
        request: &Request,
        after: After,
        output: &mut Output<'_>,
    ) {
        // An interim response is not for HTTP/1.0 (RFC 9110 §15.2).
        if head.is_interim() && request.version == Version::Http10 {
            return;
        }
        output.out.append(&mut self.held);
        write_status_line(output.out, head);
        match request.response_fields.as_deref().filter(|_| !head.is_interim()) {
            None => write_fields(output.out, head.text, head.fields, |_| false),
            Some(rules) => {
                write_fields(output.out, head.text, head.fields, |field| rules.drops(field.name(head.text)));
                for (name, value) in rules.added(|name| has_field(head.text, head.fields, name)) {
                    // A text of the client's that cannot be a value is left out.
                    let _ = push_field(output.out, name, value);
                }
            }
        }
        let end = HeadEnd::for_client(head, request.method(), request.version, after.keeps_open);
        end_head(output.out, &end);
        if !head.is_interim() {
            self.outgoing = Outgoing::new(end.framing);
        }
    }

    fn put_answer(
        &mut self,
        answer: &OwnResponse,
        request: Option<&Request>,
        close: bool,
        output: &mut Output<'_>,
    ) {
        output.out.append(&mut self.held);
        let is_head = request.is_some_and(|request| request.is_head);
        answer.write(output.out, close, is_head, request);
        self.outgoing = Outgoing::whole(if is_head { 0 } else { answer.content.len() as u64 });
    }

    fn keeps_open(&self, request: &Request, response: &ResponseHead<'_>) -> bool {
        let framing = response.framing(request.method()).for_client(request.version);
        request.keeps_open && framing != Framing::UntilClose
    }

    fn can_tunnel(&self) -> bool {
        true
    }

    fn received(&self) -> u64 {
        self.incoming.bytes
    }

    fn sent(&self) -> u64 {
        self.outgoing.bytes
    }

    fn is_full(&self) -> bool {
        self.leg.is_full()
    }

    fn check(&mut self) -> Result<(), Fault> {
        let checked = self.leg.check().map_err(|broken| CloseReason::broken(Step::Relay, &broken));
        checked.and_then(|()| self.check_end()).map_err(Fault::gone)
    }
}
