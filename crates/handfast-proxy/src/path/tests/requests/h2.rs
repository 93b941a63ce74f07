//! Clients and backends that speak HTTP/2, by the h2 crate.

use std::cell::RefCell;
use std::future::poll_fn;
use std::rc::Rc;
use std::time::Duration;

use ::h2::server::{self, SendResponse};
use ::h2::{Reason, RecvStream, SendStream, client};
use bytes::Bytes;
use handfast_leg::memory::Memory;
use handfast_leg::memory::tasks::{self, InMemory};
use handfast_leg::runtime::Runtime;
use handfast_leg::{Ending, Leg, Pipe, READ, Side, Way};
use handfast_net::clock::Moment;
use handfast_tls::buffer::Scratch;
use handfast_tls::session::Session;
use http::{HeaderMap, HeaderName, HeaderValue, Request, Response};

use super::h2_pipe::{SharedPipe, drive};
use super::plan::{BackendFault, Framing, Outcome, Play, TRAILER};

type Shared = Rc<RefCell<Pipe<Memory, Box<dyn Session>>>>;

fn pipe(side: Side, socket: Memory) -> Shared {
    let scratch = Rc::new(RefCell::new(Scratch::new(READ)));
    Rc::new(RefCell::new(Pipe::new(Leg::plain(side, socket), scratch, b"")))
}

fn soon() -> Moment {
    InMemory::now() + Duration::from_secs(100_000)
}

fn close(pipe: Shared, is_clean: bool) {
    let mut leg = Rc::into_inner(pipe).expect("h2 has dropped its share").into_inner().into_leg();
    Ending::new(&mut leg, if is_clean { Way::InOrder } else { Way::AtOnce }, InMemory::now());
}

/// Sends content up to `until`; its end, if that is all, with `trailer`.
async fn send(
    stream: &mut SendStream<Bytes>,
    content: &[u8],
    until: usize,
    trailer: Option<String>,
) -> Result<(), ::h2::Error> {
    let mut sent = 0;
    while sent < until {
        stream.reserve_capacity((until - sent).min(16_384));
        // Capacity that was granted before is not reported again.
        if stream.capacity() == 0 {
            let Some(granted) = poll_fn(|context| stream.poll_capacity(context)).await else { return Ok(()) };
            granted?;
        }
        let end = until.min(sent + stream.capacity());
        let is_last = end == content.len() && trailer.is_none();
        stream.send_data(Bytes::copy_from_slice(&content[sent..end]), is_last)?;
        sent = end;
    }
    match trailer {
        Some(trailer) if until == content.len() => {
            let value = HeaderValue::try_from(trailer).expect("ASCII");
            stream.send_trailers(HeaderMap::from_iter([(HeaderName::from_static(TRAILER), value)]))?;
        }
        None if content.is_empty() => stream.send_data(Bytes::new(), true)?,
        _ => {}
    }
    Ok(())
}

/// Reads content to its end; its length, and its trailer.
async fn read(
    play: &Play,
    mut body: RecvStream,
    id: usize,
    is_response: bool,
    is_own: bool,
) -> Result<(usize, Option<String>), ::h2::Error> {
    let mut length = 0;
    while let Some(data) = body.data().await {
        let data = data?;
        if !is_own {
            play.check(id, is_response, length, &data);
        }
        length += data.len();
        // Fails where the stream is over already.
        let _ = body.flow_control().release_capacity(data.len());
    }
    let trailers = body.trailers().await?.unwrap_or_default();
    let trailer = trailers.get(TRAILER).map(|value| value.to_str().expect("ASCII").to_owned());
    assert_eq!(trailers.len(), usize::from(trailer.is_some()), "trailers of {id}: {trailers:?}");
    Ok((length, trailer))
}

/// A client: all its requests at once.
pub(super) async fn client(play: Rc<Play>, socket: Memory, ids: Vec<usize>) {
    connect(socket, move |sender| match sender {
        Some(sender) => ids.into_iter().for_each(|id| {
            tasks::spawn(request(Rc::clone(&play), id, sender.clone()));
        }),
        None => ids.into_iter().for_each(|id| play.ended(id, Outcome::Aborted)),
    })
    .await;
}

/// A client's connection; `begin` starts its requests, and receives nothing where the connection breaks before them.
pub(super) async fn connect(socket: Memory, begin: impl FnOnce(Option<client::SendRequest<Bytes>>)) {
    let pipe = pipe(Side::Backend, socket);
    let handshake = client::Builder::new().handshake(SharedPipe(Rc::clone(&pipe)));
    let ended = match drive(handshake, soon()).await.expect("in time") {
        Ok((sender, connection)) => {
            begin(Some(sender));
            drive(connection, soon()).await.expect("a client hangs")
        }
        Err(error) => {
            begin(None);
            Err(error)
        }
    };
    close(pipe, ended.is_ok());
}

async fn request(play: Rc<Play>, id: usize, sender: client::SendRequest<Bytes>) {
    play.mark_begun(id);
    let outcome = exchange(&play, id, sender).await.unwrap_or(Outcome::Aborted);
    play.ended(id, outcome);
}

async fn exchange(
    play: &Play,
    id: usize,
    sender: client::SendRequest<Bytes>,
) -> Result<Outcome, ::h2::Error> {
    let plan = &play.plans[id];
    let mut sender = sender.ready().await?;
    let request = Request::builder().method(plan.method).uri(format!("http://a.example{}", play.path(id)));
    let has_content = matches!(plan.method, "POST" | "PUT");
    let is_whole = !has_content && plan.leaves.is_none();
    let (response, mut stream) = sender.send_request(request.body(()).expect("a request"), is_whole)?;
    drop(sender);
    if let Some(at) = plan.leaves {
        let mut content = play.content(id, false, plan.upload + 1);
        content[plan.upload] = 0;
        // The peer may have reset it before.
        let _ = send(&mut stream, &content, at, None).await;
        stream.send_reset(Reason::CANCEL);
        return Ok(Outcome::Unsent);
    }
    if has_content {
        // A response can make the rest unnecessary.
        let (content, trailer) = (play.content(id, false, plan.upload), play.upload_trailer(id));
        let _ = send(&mut stream, &content, plan.upload, trailer).await;
    }
    let response = response.await?;
    let status = response.status().as_u16();
    let found = response.headers().get("x-id").map(|value| value.to_str().expect("ASCII").to_owned());
    let is_own = found.is_none();
    match found {
        Some(found) => assert_eq!(found, id.to_string(), "the response of another request"),
        None => assert!(status >= 400, "an error of the proxy: {status}"),
    }
    let (length, trailer) = read(play, response.into_body(), id, true, is_own).await?;
    if is_own {
        return Ok(Outcome::Own(status, length));
    }
    assert_eq!(trailer, play.download_trailer(id), "the trailer of response {id}: {plan:?}");
    assert_eq!(length, plan.content(), "END_STREAM of response {id}: {plan:?}");
    Ok(Outcome::Whole)
}

/// A backend's connection, until the proxy closes it.
pub(super) async fn backend(play: Rc<Play>, socket: Memory) {
    accept(socket, move |request, respond| {
        tasks::spawn(serve(Rc::clone(&play), request, respond));
    })
    .await;
}

/// A backend's connection; `begin` starts the response to a request.
pub(super) async fn accept(socket: Memory, begin: impl Fn(Request<RecvStream>, SendResponse<Bytes>)) {
    let pipe = pipe(Side::Client, socket);
    let handshake = server::Builder::new().handshake(SharedPipe(Rc::clone(&pipe)));
    let ended = match drive(handshake, soon()).await.expect("in time") {
        Err(error) => Err(error),
        Ok(mut connection) => loop {
            match drive(connection.accept(), soon()).await.expect("a backend hangs") {
                None => break Ok(()),
                Some(Err(error)) => break Err(error),
                Some(Ok((request, respond))) => begin(request, respond),
            }
        },
    };
    close(pipe, ended.is_ok());
}

async fn serve(play: Rc<Play>, request: Request<RecvStream>, mut respond: SendResponse<Bytes>) {
    let id = play.id(request.uri().path());
    let attempt = play.saw(id, false);
    let plan = &play.plans[id];
    match plan.fault {
        BackendFault::ClosesKept if attempt == 1 => return respond.send_reset(Reason::REFUSED_STREAM),
        BackendFault::AlwaysCloses => return respond.send_reset(Reason::REFUSED_STREAM),
        BackendFault::BadHead => return respond.send_reset(Reason::INTERNAL_ERROR),
        BackendFault::Silent => {
            let _ = poll_fn(|context| respond.poll_reset(context)).await;
            return;
        }
        _ => {}
    }
    if !plan.is_early {
        let Ok(read) = read(&play, request.into_body(), id, false, false).await else { return };
        play.uploaded(id, read);
        let _ = answer(&play, id, respond).await;
        return;
    }
    let body = request.into_body();
    let _ = answer(&play, id, respond).await;
    if let Ok(read) = read(&play, body, id, false, false).await {
        play.uploaded(id, read);
    }
}

async fn answer(play: &Play, id: usize, mut respond: SendResponse<Bytes>) -> Result<(), ::h2::Error> {
    let plan = &play.plans[id];
    let head = |status: u16| Response::builder().status(status).header("x-id", id);
    for _ in 0..plan.interim {
        respond.send_informational(head(103).body(()).expect("a head"))?;
    }
    let is_whole = plan.has_no_content();
    let mut stream = respond.send_response(head(plan.status).body(()).expect("a head"), is_whole)?;
    if is_whole {
        return Ok(());
    }
    let content = play.content(id, true, plan.content());
    if let BackendFault::Reset(at) | BackendFault::End(at) = plan.fault {
        send(&mut stream, &content, at, None).await?;
        stream.send_reset(Reason::INTERNAL_ERROR);
        return Ok(());
    }
    let trailer = (plan.framing == Framing::Chunked).then(|| play.trailer(id, true));
    send(&mut stream, &content, content.len(), trailer).await
}
