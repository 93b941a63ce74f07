//! Behind our relay, hyper's server sees the requests that we saw, with the same bodies, and no others.

use std::cell::RefCell;
use std::convert::Infallible;
use std::pin::{Pin, pin};
use std::rc::Rc;
use std::task::{Context, Poll, Waker};

use http_body_util::{BodyExt, Empty};
use hyper::body::{Bytes, Incoming};
use hyper::rt::{Read, ReadBufCursor, Write};
use hyper::service::service_fn;
use hyper::{Request, Response};
use proptest::prelude::*;

use crate::inputs::{changed, requests, sound_requests};
use crate::relay::{Seen, relay};

/// A connection on which everything has arrived already, and is read in pieces.
struct Memory {
    input: Vec<u8>,
    at: usize,
    piece: usize,
}

impl Read for Memory {
    fn poll_read(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
        mut into: ReadBufCursor<'_>,
    ) -> Poll<std::io::Result<()>> {
        let length = (self.input.len() - self.at).min(into.remaining()).min(self.piece);
        into.put_slice(&self.input[self.at..self.at + length]);
        self.at += length;
        Poll::Ready(Ok(()))
    }
}

impl Write for Memory {
    fn poll_write(self: Pin<&mut Self>, _: &mut Context<'_>, bytes: &[u8]) -> Poll<std::io::Result<usize>> {
        Poll::Ready(Ok(bytes.len()))
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<std::io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<std::io::Result<()>> {
        Poll::Ready(Ok(()))
    }
}

/// The requests that hyper's server sees, and whether the connection ended without an error.
fn serve(input: &[u8], piece: usize) -> (Vec<Seen>, bool) {
    let seen = Rc::new(RefCell::new(Vec::new()));
    let answer = |request: Request<Incoming>| {
        let seen = Rc::clone(&seen);
        async move {
            let (method, target) = (request.method().to_string(), request.uri().to_string());
            seen.borrow_mut().push(Seen { method, target, ..Seen::default() });
            let body = request.into_body().collect().await;
            if let (Ok(body), Some(last)) = (body, seen.borrow_mut().last_mut()) {
                (last.body, last.is_complete) = (body.to_bytes().to_vec(), true);
            }
            Ok::<_, Infallible>(Response::new(Empty::<Bytes>::new()))
        }
    };
    let memory = Memory { input: input.to_vec(), at: 0, piece };
    let mut builder = hyper::server::conn::http1::Builder::new();
    builder.half_close(true).max_headers(200);
    let mut connection = pin!(builder.serve_connection(memory, service_fn(answer)));
    let mut context = Context::from_waker(Waker::noop());
    let ended = (0..100_000).find_map(|_| match connection.as_mut().poll(&mut context) {
        Poll::Ready(result) => Some(result.is_ok()),
        Poll::Pending => None,
    });
    let is_clean = ended.expect("the connection ends");
    (seen.take(), is_clean)
}

/// Returns true if hyper reads such a target: its URLs have fewer bytes than RFC 9112 lets through.
fn is_ordinary(target: &str) -> bool {
    target == "*"
        || target.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"/?=.&-_~%:@;,".contains(&byte))
}

fn agrees(input: &[u8], piece: usize) -> Result<(), TestCaseError> {
    let ours = relay(input);
    if !ours.requests.iter().all(|request| is_ordinary(&request.target)) {
        return Ok(());
    }
    let (theirs, is_clean) = serve(&ours.sent, piece);
    prop_assert_eq!(theirs.len(), ours.requests.len(), "{}", ours.sent.escape_ascii());
    for (ours, theirs) in ours.requests.iter().zip(&theirs) {
        prop_assert_eq!((&ours.method, &ours.target), (&theirs.method, &theirs.target));
        prop_assert_eq!(ours.is_complete, theirs.is_complete);
        if ours.is_complete {
            prop_assert_eq!(&ours.body, &theirs.body);
        }
    }
    if ours.requests.iter().all(|request| request.is_complete) {
        prop_assert!(is_clean, "bytes are left over: {}", ours.sent.escape_ascii());
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1_000))]

    #[test]
    fn sound_requests_arrive_as_they_were(input in sound_requests(), piece in 1..200_usize) {
        let ours = relay(&input);
        prop_assert_eq!((ours.requests.len(), ours.refused), (2, None), "{}", input.escape_ascii());
        prop_assert!(ours.requests.iter().all(|request| request.is_complete));
        agrees(&input, piece)?;
    }

    #[test]
    fn no_request_arrives_that_we_did_not_see(input in changed(requests()), piece in 1..200_usize) {
        agrees(&input, piece)?;
    }

    #[test]
    fn no_request_arrives_out_of_a_changed_one(input in changed(sound_requests()), piece in 1..200_usize) {
        agrees(&input, piece)?;
    }

    #[test]
    fn what_we_write_we_read_again(input in sound_requests()) {
        let once = relay(&input);
        let twice = relay(&once.sent);
        prop_assert_eq!(&twice.requests, &once.requests);
        prop_assert_eq!(twice.sent.escape_ascii().to_string(), once.sent.escape_ascii().to_string());
    }
}
