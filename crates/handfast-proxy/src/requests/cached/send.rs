//! A response from the cache, for a client.

use std::ops::Range;

use handfast_cache::{CacheStatus, CachedResponse, Coded, Hit, ReadError, Reader};
use handfast_http::http1::{RequestHead, ResponseHead, WrittenHead, write_fields, write_status_line};
use handfast_leg::runtime::Runtime;
use handfast_observe::cause::Cause;
use handfast_observe::reason::{CloseReason, Side, Step};
use handfast_observe::request_record::RequestPart;

use std::task::{Poll, Waker};

use crate::requests::client::Client;
use crate::requests::decide::compression::Judgement;
use crate::requests::decide::connection::HttpConnection;
use crate::requests::decide::request::Request;
use crate::requests::relay::Outcome;
use crate::requests::relay::send_answer::Ended;
use crate::requests::relay::send_content::{
    Pieces, StoredResponse, send_content, until_ready, with_response,
};

/// Most bytes of a line with the length of content.
const CONTENT_LENGTH_BYTES: usize = 48;

/// Response to a client for a hit, and the time of the decision, in milliseconds since 1970.
pub(super) struct Prepared {
    answer: CachedResponse,
    now_ms: u64,
}

impl Prepared {
    /// `request`: the request that the hit was found for.
    pub(super) fn new(hit: &Hit, request: &RequestHead<'_>, now_ms: u64) -> Self {
        Self { answer: hit.answer(request, now_ms), now_ms }
    }
}

/// Serves a request from the cache; `None`: the content cannot be read, and the client has nothing of it.
pub(super) async fn send<R: Runtime>(
    connection: &HttpConnection,
    client: &mut impl Client,
    request: &mut Request,
    hit: &Hit,
    prepared: Prepared,
    status: CacheStatus,
) -> Option<Ended<R::Socket>> {
    request.enter(RequestPart::Relay, R::now());
    let Prepared { answer: CachedResponse { head, status: code, content }, now_ms: now } = prepared;
    let is_empty = content.is_empty();
    let (head, mut reader) = match coded(request, hit, (&head, &content), now) {
        Some((head, reader)) => (head, reader),
        None => (head, hit.reader(content)),
    };
    match until_ready::<R, _>(connection, client, request, |waker| reader.poll_ready(waker)).await {
        Ok(Some(Ok(()))) => {}
        Ok(Some(Err(_)) | None) => return None,
        Err(reason) => return Some(Err((Outcome::Abort(reason.clone()), reason))),
    }
    let status = CacheStatus { ttl: Some(hit.ttl(now)), ..status };
    let mut text = head;
    text.truncate(text.len().saturating_sub(2));
    text.extend_from_slice(format!("Cache-Status: {}\r\n\r\n", status.value()).as_bytes());
    let response = StoredResponse { status: code, head: text, is_empty, content: reader };
    Some(send_content::<R>(connection, client, request, response).await)
}

/// Returns head and content as they were compressed for another client; if they were not, what this one receives is kept.
fn coded(
    request: &Request,
    hit: &Hit,
    (head, content): (&[u8], &Range<u64>),
    now: u64,
) -> Option<(Vec<u8>, Reader)> {
    // Of a part, or of nothing, nothing is compressed.
    let plan = request.compression.as_deref().filter(|_| hit.is_whole(content) && !content.is_empty())?;
    with_response(head, |head| {
        let judgement = plan.judge(head, false);
        let Judgement::Coded(coding, level) = judgement else { return None };
        match hit.coded(&format!("{}-{level}", coding.name()), now) {
            Coded::Stored(reader, size) => {
                let mut room = WrittenHead::default();
                Some((written(&judgement.apply(head, &mut room), size), reader))
            }
            Coded::Missing(filler) => {
                plan.keep_in(filler);
                None
            }
            Coded::NotKept => None,
        }
    })?
}

/// A head whose content has this size.
fn written(head: &ResponseHead<'_>, size: u64) -> Vec<u8> {
    let mut text = Vec::with_capacity(head.text.len() + CONTENT_LENGTH_BYTES);
    write_status_line(&mut text, head);
    write_fields(&mut text, head.text, head.fields, |_| false);
    text.extend_from_slice(format!("Content-Length: {size}\r\n\r\n").as_bytes());
    text
}

impl Pieces for Reader {
    fn poll_piece<T>(
        &mut self,
        most: usize,
        waker: &Waker,
        take: impl FnOnce(&[u8]) -> T,
    ) -> Poll<Result<Option<T>, CloseReason>> {
        Self::poll_piece(self, most, waker, take).map_err(|error| broken(&error))
    }
}

fn broken(error: &ReadError) -> CloseReason {
    let (side, cause, detail) = match error {
        ReadError::Aborted => {
            (Side::Backend, Cause::CLOSED_EARLY, "before the end of its message".to_owned())
        }
        ReadError::Broken => (Side::Local, Cause::Internal, "the file in the cache is damaged".to_owned()),
        ReadError::OutOfFiles => {
            (Side::Local, Cause::Internal, "no descriptor is left for the cache".to_owned())
        }
        ReadError::Disk(error) => (Side::Local, Cause::Internal, format!("read from the cache: {error}")),
        _ => (Side::Local, Cause::Internal, "read from the cache".to_owned()),
    };
    CloseReason::new(Step::Relay, side, cause).because(detail)
}
