//! A response from the cache, for a client.

use handfast_cache::{CacheStatus, CachedResponse, Hit, ReadError, Reader};
use handfast_http::http1::RequestHead;
use handfast_leg::runtime::Runtime;
use handfast_net::clock::Moment;
use handfast_net::engine::Woken;
use handfast_observe::cause::Cause;
use handfast_observe::reason::{CloseReason, Side, Step};
use handfast_observe::request_record::RequestPart;

use std::task::{Poll, Waker};

use crate::requests::cached::text::with_response;
use crate::requests::client::{After, Client};
use crate::requests::decide::connection::HttpConnection;
use crate::requests::decide::request::Request;
use crate::requests::head::content::Io;
use crate::requests::head::fault::Fault;
use crate::requests::relay::send_answer::{Ended, wait};
use crate::requests::relay::{MAX_ROUNDS, Outcome, TURN};
use crate::worker::request_routes::SLOW_WINDOW;

/// Bytes that are sent at once.
const MAX_PIECE_BYTES: usize = 65_536;

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
    let mut reader = hit.reader(content.clone());
    match until_ready::<R, _>(connection, client, request, |waker| reader.poll_ready(waker)).await {
        Ok(Some(Ok(()))) => {}
        Ok(Some(Err(_)) | None) => return None,
        Err(reason) => return Some(Err((Outcome::Abort(reason.clone()), reason))),
    }
    let status = CacheStatus { ttl: Some(hit.ttl(now)), ..status };
    let mut text = head;
    text.truncate(text.len().saturating_sub(2));
    text.extend_from_slice(format!("Cache-Status: {}\r\n\r\n", status.value()).as_bytes());
    request.record.status = Some(code);
    let is_over = content.is_empty();
    let mut sending =
        Sending { connection, request, reader, text, is_put: false, is_over, keeps_open: false };
    let ended = sending.run::<R>(client).await;
    let keeps_open = sending.keeps_open;
    Some(match ended {
        Ok(()) if keeps_open => Ok(Outcome::KeepOpen),
        Ok(()) => Ok(Outcome::Close),
        Err(reason) => Err((Outcome::Abort(reason.clone()), reason)),
    })
}

/// Waits until it is ready; `None`: not in the time that a backend has for an answer.
///
/// **Errors**: the client is gone, or the process ends.
pub(super) async fn until_ready<R: Runtime, T>(
    connection: &HttpConnection,
    client: &mut impl Client,
    request: &Request,
    mut poll: impl FnMut(&Waker) -> Poll<T>,
) -> Result<Option<T>, CloseReason> {
    let deadline = R::now().deadline(request.limits().answer);
    let waker = R::waker();
    loop {
        if let Poll::Ready(ready) = poll(&waker) {
            return Ok(Some(ready));
        }
        client.before_wait()?;
        let woken = R::wait(deadline).await;
        client.after_wait()?;
        connection.check_phase(Step::Relay)?;
        if woken == Woken::Deadline && R::turn() >= deadline {
            return Ok(None);
        }
    }
}

struct Sending<'a> {
    connection: &'a HttpConnection,
    request: &'a mut Request,
    reader: Reader,
    text: Vec<u8>,
    is_put: bool,
    /// The end of the content was put.
    is_over: bool,
    keeps_open: bool,
}

/// Progress of one turn.
#[derive(PartialEq, Eq)]
enum SendProgress {
    Done,
    /// Others of the thread have their turn first.
    Long,
    Moved,
    Blocked,
}

impl Sending<'_> {
    async fn run<R: Runtime>(&mut self, client: &mut impl Client) -> Result<(), CloseReason> {
        let mut progress = R::turn();
        let mut window = (progress, 0);
        let waker = R::waker();
        loop {
            let turn = {
                let mut lent = self.connection.lend();
                let mut io = lent.io();
                self.turn::<R>(client, &mut io, &waker)?
            };
            match turn {
                SendProgress::Done => return Ok(()),
                SendProgress::Long => {
                    self.request.count_moved(client.moved());
                    progress = R::turn();
                    R::yield_now().await;
                    continue;
                }
                SendProgress::Moved => {
                    progress = R::turn();
                    self.request.count_moved(client.moved());
                }
                SendProgress::Blocked => {}
            }
            self.pause::<R>(client, progress, &mut window).await?;
        }
    }

    fn turn<R: Runtime>(
        &mut self,
        client: &mut impl Client,
        io: &mut Io<'_>,
        waker: &Waker,
    ) -> Result<SendProgress, CloseReason> {
        let of_client = |fault: Fault| fault.reason;
        let mut rounds = 0;
        let mut began = Moment::NEVER;
        while client.accepts(io).map_err(of_client)? {
            if !self.is_put {
                self.is_put = true;
                self.put_head(client, io, R::turn())?;
                if self.is_over {
                    client.put_end(&[], &[], &mut io.output()).map_err(of_client)?;
                }
            }
            if self.is_over {
                client.flush(&mut io.output()).map_err(of_client)?;
                if client.is_done() {
                    return Ok(SendProgress::Done);
                }
                // The socket reports room only after a write that found none.
                client.accepts(io).map_err(of_client)?;
                break;
            }
            match self.reader.poll_piece(MAX_PIECE_BYTES.min(client.room()), waker, |piece| {
                client.put(piece, &mut io.output())
            }) {
                Poll::Pending => {
                    client.flush(&mut io.output()).map_err(of_client)?;
                    break;
                }
                Poll::Ready(Err(error)) => return Err(broken(&error)),
                Poll::Ready(Ok(None)) => {
                    self.is_over = true;
                    client.put_end(&[], &[], &mut io.output()).map_err(of_client)?;
                }
                Poll::Ready(Ok(Some(put))) => put.map_err(of_client)?,
            }
            rounds += 1;
            client.flush(&mut io.output()).map_err(of_client)?;
            if self.is_over && client.is_done() {
                return Ok(SendProgress::Done);
            }
            // What is compressed takes longer than what is copied.
            let now = R::now();
            began = began.min(now);
            if rounds == MAX_ROUNDS || now.since(began) >= TURN {
                return Ok(SendProgress::Long);
            }
        }
        if self.is_over && client.is_done() {
            return Ok(SendProgress::Done);
        }
        Ok(if rounds > 0 { SendProgress::Moved } else { SendProgress::Blocked })
    }

    fn put_head(
        &mut self,
        client: &mut impl Client,
        io: &mut Io<'_>,
        now: Moment,
    ) -> Result<(), CloseReason> {
        let put = with_response(&self.text, |head| {
            self.keeps_open =
                client.has_ended() && client.keeps_open(self.request, head) && !self.connection.closes(now);
            let after = After { keeps_open: self.keeps_open, is_over: self.is_over };
            client.put_head(head, self.request, after, &mut io.output());
        });
        put.ok_or_else(|| {
            CloseReason::new(Step::Relay, Side::Local, Cause::Internal).because("a stored head is none")
        })
    }

    async fn pause<R: Runtime>(
        &self,
        client: &mut impl Client,
        progress: Moment,
        window: &mut (Moment, u64),
    ) -> Result<(), CloseReason> {
        let now = R::turn();
        if now.since(window.0) >= SLOW_WINDOW {
            *window = (now, client.sent());
        }
        let is_slow = client.is_full() && client.sent() - window.1 < self.connection.http.bytes_in_window();
        let slow = if is_slow { window.0 + SLOW_WINDOW } else { Moment::NEVER };
        let deadline = progress.deadline(self.request.limits().content).min(slow);
        let woken = wait::<R>(self.connection, client, deadline).await.map_err(|fault| fault.reason)?;
        if woken == Woken::Deadline && R::turn() >= deadline {
            let side = if client.is_full() { Side::Client } else { Side::Backend };
            let reason = CloseReason::new(Step::Relay, side, Cause::ContentDeadline);
            return Err(match deadline == slow {
                true => reason.because(self.connection.http.below_min_rate()),
                false => reason,
            });
        }
        Ok(())
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
