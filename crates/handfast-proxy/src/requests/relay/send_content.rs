//! Sending a response from disk: a head that this proxy wrote, and content in pieces.
//!
//! In: the head, a reader of the content, and a client. Out: it is with the kernel, or the client is gone, or the content broke off.

use std::task::{Poll, Waker};

use handfast_http::http1::{HeadLimits, HeadProgress, ResponseHead, parse_response};
use handfast_leg::runtime::Runtime;
use handfast_net::clock::Moment;
use handfast_net::engine::Woken;
use handfast_observe::cause::Cause;
use handfast_observe::reason::{CloseReason, Side, Step};

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
/// Fields of a head for which there is room at once.
const INITIAL_FIELDS: usize = 32;

/// Content that is read in pieces.
pub(crate) trait Pieces {
    /// Hands the next bytes to `take`, at most `most`: what that returns, `None` at the end. A wait ends with a call of `waker`.
    ///
    /// **Errors**: the response must not look complete.
    fn poll_piece<T>(
        &mut self,
        most: usize,
        waker: &Waker,
        take: impl FnOnce(&[u8]) -> T,
    ) -> Poll<Result<Option<T>, CloseReason>>;
}

/// A response from disk.
pub(crate) struct StoredResponse<P> {
    pub(crate) status: u16,
    /// A whole head in HTTP/1.
    pub(crate) head: Vec<u8>,
    /// No content follows.
    pub(crate) is_empty: bool,
    pub(crate) content: P,
}

/// Sends a response.
pub(crate) async fn send_content<R: Runtime>(
    connection: &HttpConnection,
    client: &mut impl Client,
    request: &mut Request,
    response: StoredResponse<impl Pieces>,
) -> Ended<R::Socket> {
    let StoredResponse { status, head: text, is_empty: is_over, content } = response;
    request.record.status = Some(status);
    let mut sending =
        Sending { connection, request, content, text, is_put: false, is_over, keeps_open: false };
    let ended = sending.run::<R>(client).await;
    match ended {
        Ok(()) if sending.keeps_open => Ok(Outcome::KeepOpen),
        Ok(()) => Ok(Outcome::Close),
        Err(reason) => Err((Outcome::Abort(reason.clone()), reason)),
    }
}

/// Reads the head of a response that this proxy wrote; `None`: it is none.
///
/// **Cost**: one pass over it, and room for its fields.
pub(crate) fn with_response<T>(text: &[u8], read: impl FnOnce(&ResponseHead<'_>) -> T) -> Option<T> {
    let mut fields = Vec::with_capacity(INITIAL_FIELDS);
    let head = parse_response(text, &mut HeadProgress::default(), &mut fields, &HeadLimits::UNLIMITED);
    Some(read(&head.ok()??))
}

/// Waits until it is ready; `None`: not in the time that a backend has for an answer.
///
/// **Errors**: the client is gone, or the process ends.
pub(crate) async fn until_ready<R: Runtime, T>(
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

struct Sending<'a, P> {
    connection: &'a HttpConnection,
    request: &'a mut Request,
    content: P,
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

impl<P: Pieces> Sending<'_, P> {
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
            match self.content.poll_piece(MAX_PIECE_BYTES.min(client.room()), waker, |piece| {
                client.put(piece, &mut io.output())
            }) {
                Poll::Pending => {
                    client.flush(&mut io.output()).map_err(of_client)?;
                    break;
                }
                Poll::Ready(Err(reason)) => return Err(reason),
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
            // Compressing takes longer than copying.
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
