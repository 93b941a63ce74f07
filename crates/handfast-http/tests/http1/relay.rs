//! A small reverse proxy in memory: what a client sends, as it would go to a backend.

use handfast_http::http1::{
    BodyReader, CHUNK_HEAD_LIMIT, Framing, HeadEnd, HeadLimits, HeadProgress, OwnedRequest, Piece,
    RequestHead, Rule, WrittenHead, chunk_head, end_head, parse_request, write_fields, write_last_chunk,
    write_request_line,
};

/// A request as we read it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Seen {
    pub(crate) method: String,
    pub(crate) target: String,
    pub(crate) body: Vec<u8>,
    /// True if the body ended.
    pub(crate) is_complete: bool,
}

/// Outcome of a client's bytes.
#[derive(Debug, Default)]
pub(crate) struct Relayed {
    pub(crate) requests: Vec<Seen>,
    /// Bytes that the backend receives.
    pub(crate) sent: Vec<u8>,
    pub(crate) refused: Option<Rule>,
}

/// Relays all requests up to the first that is refused or incomplete.
pub(crate) fn relay(input: &[u8]) -> Relayed {
    let mut relayed = Relayed::default();
    let mut rest = input;
    loop {
        match one(rest, &mut relayed) {
            Ok(Some(length)) => rest = &rest[length..],
            Ok(None) => return relayed,
            Err(rule) => {
                relayed.refused = Some(rule);
                return relayed;
            }
        }
    }
}

/// Returns the request of a backend, for comparison: the fields that frame the message or belong to its connection are written by each version.
fn described(head: &RequestHead<'_>) -> String {
    let RequestHead { method, target, version, host, framing, fields, .. } = *head;
    let fields = fields.iter().filter(|field| field.kind().is_forwarded());
    let fields: Vec<_> = fields
        .map(|field| {
            (field.name(head.text).escape_ascii(), field.value(head.text).escape_ascii(), field.kind())
        })
        .collect();
    let flags = (head.expects_continue, head.accepts_trailers, head.keeps_open, head.upgrade);
    format!("{method:?} {:?} {version:?} {host:?} {framing:?} {fields:?} {flags:?}", target.path())
}

/// Relays one request, and returns its length.
fn one(received: &[u8], relayed: &mut Relayed) -> Result<Option<usize>, Rule> {
    let (limits, mut fields) = (HeadLimits::default(), Vec::new());
    let head = parse_request(received, &mut HeadProgress::default(), &mut fields, &limits);
    let Some(head) = head.map_err(|error| error.rule)? else { return Ok(None) };
    let mut written = WrittenHead::default();
    write_request_line(&mut written.text, &head);
    let method = String::from_utf8_lossy(head.method.as_bytes()).into_owned();
    let target = String::from_utf8_lossy(&written.text[method.len() + 1..]).replace(" HTTP/1.1\r\n", "");
    write_fields(&mut written, head.text, head.fields, |_| false);
    end_head(&mut written.text, &HeadEnd::for_backend(&head));
    let forwarded = OwnedRequest::written(written, &head);
    let parsed = OwnedRequest::of_written(forwarded.text()).map_err(|error| error.rule)?;
    let parsed = parsed.expect("a whole head");
    assert_eq!(described(&forwarded.head()), described(&parsed.head()));
    let sent = &mut relayed.sent;
    sent.extend(forwarded.text());
    relayed.requests.push(Seen { method, target, ..Seen::default() });
    let seen = relayed.requests.last_mut().expect("was just added");

    let mut reader = BodyReader::new(head.framing, &limits, false);
    let (mut at, mut trailers) = (head.length, Vec::new());
    loop {
        let text = &received[at..];
        match reader.next(text, &mut trailers).map_err(|error| error.rule)? {
            Piece::Data(range) => {
                let data = &text[range.clone()];
                seen.body.extend(data);
                if head.framing == Framing::Chunked {
                    sent.extend(chunk_head(data.len(), &mut [0; CHUNK_HEAD_LIMIT]));
                    sent.extend(data);
                    sent.extend(b"\r\n");
                } else {
                    sent.extend(data);
                }
                at += range.end;
            }
            Piece::More { .. } => return Ok(None),
            Piece::End { consumed, trailers: range } => {
                if head.framing == Framing::Chunked {
                    write_last_chunk(sent, &text[range], &trailers, |_| false);
                }
                seen.is_complete = true;
                return Ok(Some(at + consumed));
            }
        }
    }
}
