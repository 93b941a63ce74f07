//! A client whose response is compressed on its way to it.
//!
//! In: head and content of a response. Out: the same for the client, or coded, in pieces that are flushed as often as the content is. An
//! exchange that breaks off drops the encoder, so a part of a response never has an end mark.

use handfast_cache::CodedFiller;
use handfast_compress::{Encoder, memory, piece};
use handfast_http::content_coding::ContentCoding;
use handfast_http::http1::{Field, ResponseHead, WrittenHead};
use handfast_observe::cause::Cause;
use handfast_observe::reason::{CloseReason, Side, Step};

use crate::backends::connector::Cancellation;
use crate::requests::client::{After, Client};
use crate::requests::decide::compression::{Judgement, is_checksum};
use crate::requests::decide::connection::HttpConnection;
use crate::requests::decide::own_response::OwnResponse;
use crate::requests::decide::request::Request;
use crate::requests::head::content::{Io, Output, Sink, Source};
use crate::requests::head::fault::Fault;
use crate::worker::context::CompressionMemory;

/// A client, and what compresses its response.
pub(crate) struct Compressing<'c, C> {
    client: &'c mut C,
    connection: &'c HttpConnection,
    state: State,
}

enum State {
    /// Nothing is compressed.
    Off,
    /// It depends on the head; pieces of content are that small, for they may come with it.
    Possible(ContentCoding),
    Coding(Box<Coder>),
}

/// Coding of one response.
struct Coder {
    coding: ContentCoding,
    /// `None`: the end was put.
    encoder: Option<(Encoder, CompressionMemory)>,
    /// Coded bytes that the client does not have yet.
    coded: Vec<u8>,
    /// Bytes of content since the last flush, and in all.
    unflushed: usize,
    taken: u64,
    /// Place in a cache for the same bytes.
    kept: Option<CodedFiller>,
}

impl<'c, C: Client> Compressing<'c, C> {
    pub(crate) fn new(client: &'c mut C, connection: &'c HttpConnection, request: &Request) -> Self {
        let coding = request.compression.as_ref().and_then(|plan| plan.coding);
        let state = coding.map_or(State::Off, |(coding, _)| State::Possible(coding));
        Self { client, connection, state }
    }

    /// The coding of the response, and the bytes of content before it.
    pub(crate) fn coded(&self) -> Option<(ContentCoding, u64)> {
        if let State::Coding(coder) = &self.state { Some((coder.coding, coder.taken)) } else { None }
    }

    /// Begins to compress what follows; `false`: there is no memory for that.
    fn begin(&mut self, coding: ContentCoding, level: u8, kept: Option<CodedFiller>) -> bool {
        let permit = self.connection.thread.compression_memory(memory(coding));
        let encoder = permit.and_then(|permit| Some((Encoder::new(coding, level).ok()?, permit)));
        let has_memory = encoder.is_some();
        if has_memory {
            let coder = Coder { coding, encoder, coded: Vec::new(), unflushed: 0, taken: 0, kept };
            self.state = State::Coding(Box::new(coder));
        } else {
            self.connection.service.metrics.compression_skipped();
        }
        has_memory
    }
}

impl Coder {
    fn put(&mut self, data: &[u8]) -> Result<(), Fault> {
        self.taken += data.len() as u64;
        for piece in data.chunks(piece(self.coding)) {
            if self.unflushed + piece.len() > self::piece(self.coding) {
                self.flush()?;
            }
            let Some((encoder, _)) = &mut self.encoder else { return Ok(()) };
            encoder.put(piece, &mut self.coded).map_err(broken)?;
            self.unflushed += piece.len();
        }
        Ok(())
    }

    /// A decoder has everything that was put, once the client has the coded bytes.
    fn flush(&mut self) -> Result<(), Fault> {
        match &mut self.encoder {
            Some((encoder, _)) if self.unflushed > 0 => {
                self.unflushed = 0;
                encoder.flush(&mut self.coded).map_err(broken)
            }
            _ => Ok(()),
        }
    }

    fn finish(&mut self) -> Result<(), Fault> {
        match self.encoder.take() {
            Some((encoder, _)) => encoder.finish(&mut self.coded).map_err(broken),
            None => Ok(()),
        }
    }

    /// Gives the client what is coded.
    fn give(&mut self, client: &mut impl Sink, output: &mut Output<'_>) -> Result<(), Fault> {
        if self.coded.is_empty() {
            return Ok(());
        }
        if self.kept.as_mut().is_some_and(|kept| !kept.put(&self.coded)) {
            self.kept = None;
        }
        let given = client.put(&self.coded, output);
        self.coded.clear();
        given
    }
}

fn broken(error: handfast_compress::EncodeError) -> Fault {
    Fault::of(CloseReason::new(Step::Relay, Side::Local, Cause::Internal).because(error.to_string()))
}

impl<C: Client> Source for Compressing<'_, C> {
    fn pump(&mut self, to: &mut dyn Sink, io: &mut Io<'_>) -> Result<bool, Fault> {
        self.client.pump(to, io)
    }

    fn has_ended(&self) -> bool {
        self.client.has_ended()
    }
}

impl<C: Client> Sink for Compressing<'_, C> {
    fn accepts(&mut self, io: &mut Io<'_>) -> Result<bool, Fault> {
        self.client.accepts(io)
    }

    fn room(&self) -> usize {
        let room = self.client.room();
        match &self.state {
            State::Off => room,
            State::Possible(coding) => room.min(piece(*coding)),
            State::Coding(coder) => room.min(piece(coder.coding)),
        }
    }

    fn put(&mut self, data: &[u8], output: &mut Output<'_>) -> Result<(), Fault> {
        match &mut self.state {
            State::Coding(coder) => coder.put(data),
            State::Off | State::Possible(_) => self.client.put(data, output),
        }
    }

    fn put_end(&mut self, text: &[u8], trailers: &[Field], output: &mut Output<'_>) -> Result<(), Fault> {
        let State::Coding(coder) = &mut self.state else {
            return self.client.put_end(text, trailers, output);
        };
        coder.finish()?;
        coder.give(self.client, output)?;
        if let Some(kept) = coder.kept.take() {
            kept.end();
        }
        let kept = trailers.iter().filter(|field| !is_checksum(field.name(text)));
        self.client.put_end(text, &kept.copied().collect::<Vec<_>>(), output)
    }

    fn flush(&mut self, output: &mut Output<'_>) -> Result<(), Fault> {
        if let State::Coding(coder) = &mut self.state {
            coder.flush()?;
            coder.give(self.client, output)?;
        }
        self.client.flush(output)
    }

    fn is_done(&self) -> bool {
        self.client.is_done()
    }
}

impl<C: Client> Cancellation for Compressing<'_, C> {
    fn before_wait(&mut self) -> Result<(), CloseReason> {
        self.client.before_wait()
    }

    fn after_wait(&mut self) -> Result<(), CloseReason> {
        self.client.after_wait()
    }
}

impl<C: Client> Client for Compressing<'_, C> {
    fn put_head(
        &mut self,
        head: &ResponseHead<'_>,
        request: &Request,
        after: After,
        output: &mut Output<'_>,
    ) {
        let Some(plan) = request.compression.as_ref().filter(|_| !head.is_interim()) else {
            return self.client.put_head(head, request, after, output);
        };
        // HEAD has the head of GET, whose content is not known.
        let is_empty = !request.is_head && (after.is_over || head.content_length == Some(0));
        let mut judgement = plan.judge(head, is_empty);
        self.state = State::Off;
        if let Judgement::Coded(coding, level) = judgement
            && !request.is_head
            && !self.begin(coding, level, plan.take_filler())
        {
            judgement = Judgement::Varies;
        }
        let mut room = WrittenHead::default();
        let head = judgement.apply(head, &mut room);
        self.client.put_head(&head, request, after, output);
    }

    fn put_answer(
        &mut self,
        answer: &OwnResponse,
        request: Option<&Request>,
        close: bool,
        output: &mut Output<'_>,
    ) {
        self.client.put_answer(answer, request, close, output);
    }

    fn keeps_open(&self, request: &Request, response: &ResponseHead<'_>) -> bool {
        self.client.keeps_open(request, response)
    }

    fn can_tunnel(&self) -> bool {
        self.client.can_tunnel()
    }

    fn hands_over(&self) -> bool {
        self.client.hands_over()
    }

    fn received(&self) -> u64 {
        self.client.received()
    }

    fn sent(&self) -> u64 {
        self.client.sent()
    }

    fn is_full(&self) -> bool {
        self.client.is_full()
    }

    fn check(&mut self) -> Result<(), Fault> {
        self.client.check()
    }
}
