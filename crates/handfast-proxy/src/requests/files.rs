//! Requests for files of a folder.
//!
//! In: a request, and the file that it names. Out: the file, a redirect to its folder, or the reason why there is none.

use std::task::{Poll, Waker};
use std::time::SystemTime;

use handfast_cache::{FileOutcome, FileReader, FileResponse, FileSearch, FindError, unix_ms};
use handfast_http::content_coding::AcceptedCodings;
use handfast_leg::runtime::Runtime;
use handfast_net::fault;
use handfast_observe::cause::Cause;
use handfast_observe::reason::{CloseReason, Side, Step};
use handfast_observe::request_record::RequestPart;

use crate::requests::client::Client;
use crate::requests::decide::connection::HttpConnection;
use crate::requests::decide::own_response::OwnResponse;
use crate::requests::decide::request::{FileTarget, Request};
use crate::requests::head::refusal::Refusal;
use crate::requests::relay::Outcome;
use crate::requests::relay::send_answer::{Ended, answer_with};
use crate::requests::relay::send_content::{Pieces, StoredResponse, send_content, until_ready};

/// Status of the redirect to a folder's path with a slash at its end: it may be kept, and keeps the method.
const REDIRECT: u16 = 308;

/// Serves a request.
///
/// **Errors**: the reason why there is no file, for the client and the log.
pub(crate) async fn serve<R: Runtime>(
    connection: &HttpConnection,
    client: &mut impl Client,
    request: &mut Request,
    FileTarget { path, with_slash }: FileTarget,
) -> Result<Ended<R::Socket>, Box<Refusal>> {
    // The head for a backend has the fields as the route changes them.
    let original = request.head.clone();
    let Some(folder) = &request.route.files.folder else { return Err(Box::new(Refusal::internal())) };
    let is_folder = path.is_folder();
    let accepted = AcceptedCodings::parse(original.head().values("accept-encoding"));
    let mut search = FileSearch::new(folder, path, accepted);
    request.enter(RequestPart::Answer, R::now());
    let found = match until_ready::<R, _>(connection, client, request, |waker| search.poll(waker)).await {
        Err(reason) => return Ok(Err((Outcome::Abort(reason.clone()), reason))),
        Ok(None) => return Err(too_slow()),
        Ok(Some(found)) => found.map_err(|error| refusal(&error))?,
    };
    let file = match (found, with_slash) {
        (FileOutcome::File(file), None) => file,
        (FileOutcome::File(file), Some(_)) if !is_folder => file,
        (_, Some(location)) => {
            let answer = OwnResponse::redirect(REDIRECT, location);
            return Ok(answer_with::<R>(connection, client, request, &answer, None).await);
        }
        (FileOutcome::Folder, None) => return Err(Box::new(Refusal::internal())),
    };
    request.enter(RequestPart::Relay, R::now());
    let FileResponse { head, status, content } = file.respond(&original.head(), unix_ms(SystemTime::now()));
    let is_empty = content.is_empty();
    let response = StoredResponse { status, head, is_empty, content: file.reader(content) };
    Ok(send_content::<R>(connection, client, request, response).await)
}

impl Pieces for FileReader {
    fn poll_piece<T>(
        &mut self,
        most: usize,
        waker: &Waker,
        take: impl FnOnce(&[u8]) -> T,
    ) -> Poll<Result<Option<T>, CloseReason>> {
        Self::poll_piece(self, most, waker, take).map_err(|error| {
            let reason = CloseReason::new(Step::Relay, Side::Local, Cause::FileUnreadable);
            match error.kind() {
                std::io::ErrorKind::UnexpectedEof => reason.because("it became shorter while it was sent"),
                _ => reason.because(format!("read: {error}")),
            }
        })
    }
}

fn too_slow() -> Box<Refusal> {
    let detail = "the disk did not open the file within `response-timeout`";
    Box::new(Refusal::new(504, Side::Local, Cause::AnswerDeadline, detail))
}

fn refusal(error: &FindError) -> Box<Refusal> {
    let (status, side, cause) = match error {
        FindError::NotFound(_) => (404, Side::Client, Cause::NoFile),
        // A permission that is missing is easier to find by its own status; that the file exists is no secret.
        FindError::Denied => (403, Side::Operator, Cause::FileUnreadable),
        FindError::OutOfFiles => (503, Side::Local, Cause::Socket(fault::Cause::OutOfFiles)),
        FindError::Busy => (503, Side::Local, Cause::FileUnreadable),
        _ => (500, Side::Local, Cause::FileUnreadable),
    };
    let detail = match error {
        FindError::NotFound(reason) => reason.sentence().to_owned(),
        FindError::Denied => "the user that serves must not read it: permission denied".to_owned(),
        FindError::OutOfFiles => "no descriptor is left for a file".to_owned(),
        FindError::Busy => "too many requests wait for the disk".to_owned(),
        FindError::Disk(error) => format!("open: {error}"),
        _ => "open".to_owned(),
    };
    Box::new(Refusal::new(status, side, cause, detail))
}
