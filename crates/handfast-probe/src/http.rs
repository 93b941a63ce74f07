//! One request of HTTP/1.1 and where its response ends: as much as timing needs, and no more.
//!
//! In: plaintext, however it was split. Out: the head's fields, and whether the response is complete. Nothing of a body is
//! kept. A head or a chunk's line of more than [`LIMIT`] bytes is refused.

/// Most bytes of a head, or of the line before a chunk.
const LIMIT: usize = 64 << 10;
/// Most fields of a head.
const FIELDS: usize = 128;

/// The fields of a head.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Head {
    /// The status.
    pub(crate) status: u16,
    /// `Strict-Transport-Security`, as it is written.
    pub(crate) hsts: Option<String>,
    /// `Keep-Alive`, as it is written.
    pub(crate) keep_alive: Option<String>,
    /// `Server`, as it is written.
    pub(crate) server: Option<String>,
    /// The server closes after it.
    pub(crate) closes: bool,
}

/// The request.
pub(crate) fn request(host: &str, path: &str) -> Vec<u8> {
    format!("GET {path} HTTP/1.1\r\nHost: {host}\r\nUser-Agent: handfast-probe\r\nAccept: */*\r\n\r\n")
        .into_bytes()
}

/// A response on its way.
#[derive(Debug)]
pub(crate) struct Response {
    pub(crate) head: Head,
    pub(crate) body_bytes: u64,
    part: Part,
    /// Of a head or a line that is not whole.
    kept: Vec<u8>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Part {
    Head,
    /// This number of bytes of the body is to come.
    Sized(u64),
    /// A line with a chunk's size is to come.
    ChunkLine,
    /// This number of bytes of a chunk is to come, with the line end behind it.
    Chunk(u64),
    /// Lines behind the last chunk.
    Trailer,
    UntilEnd,
    Over,
}

impl Response {
    pub(crate) fn new() -> Self {
        Self { head: Head::default(), body_bytes: 0, part: Part::Head, kept: Vec::new() }
    }

    /// Returns true if it is complete.
    pub(crate) fn is_over(&self) -> bool {
        self.part == Part::Over
    }

    /// Returns true if its end is the connection's.
    pub(crate) fn ends_with_connection(&self) -> bool {
        self.part == Part::UntilEnd
    }

    /// Takes in what came.
    ///
    /// **Errors**: the server sent something else than HTTP/1.1, or more than the limit.
    pub(crate) fn take(&mut self, mut bytes: &[u8]) -> Result<(), &'static str> {
        while !bytes.is_empty() {
            match self.part {
                Part::Head => {
                    self.kept.push(bytes[0]);
                    bytes = &bytes[1..];
                    if self.kept.len() == 5 && self.kept != b"HTTP/" {
                        return Err("what the target answered is not HTTP/1.1");
                    }
                    if self.kept.ends_with(b"\r\n\r\n") || self.kept.ends_with(b"\n\n") {
                        self.read_head()?;
                    }
                }
                Part::Sized(left) => self.part = self.eat(&mut bytes, left, Part::Sized, Part::Over),
                Part::Chunk(left) => self.part = self.eat(&mut bytes, left, Part::Chunk, Part::ChunkLine),
                Part::ChunkLine | Part::Trailer => {
                    self.kept.push(bytes[0]);
                    bytes = &bytes[1..];
                    if self.kept.ends_with(b"\n") {
                        self.read_line()?;
                    }
                }
                Part::UntilEnd => {
                    self.body_bytes += bytes.len() as u64;
                    return Ok(());
                }
                Part::Over => return Err("the target sent more than one response"),
            }
            if self.kept.len() > LIMIT {
                return Err("the target's head is longer than 64 KiB");
            }
        }
        Ok(())
    }

    fn eat(&mut self, bytes: &mut &[u8], left: u64, again: fn(u64) -> Part, then: Part) -> Part {
        let taken = left.min(bytes.len() as u64);
        // It is at most the length of the slice.
        *bytes = &bytes[taken as usize..];
        self.body_bytes += taken;
        if taken == left { then } else { again(left - taken) }
    }

    fn read_line(&mut self) -> Result<(), &'static str> {
        let line = std::mem::take(&mut self.kept);
        if self.part == Part::Trailer {
            if line.trim_ascii().is_empty() {
                self.part = Part::Over;
            }
            return Ok(());
        }
        let Ok(httparse::Status::Complete((_, size))) = httparse::parse_chunk_size(&line) else {
            return Err("a chunk of the response has no size");
        };
        // The line end behind a chunk is two bytes.
        self.part = if size == 0 { Part::Trailer } else { Part::Chunk(size.saturating_add(2)) };
        Ok(())
    }

    fn read_head(&mut self) -> Result<(), &'static str> {
        let head = std::mem::take(&mut self.kept);
        let mut fields = [httparse::EMPTY_HEADER; FIELDS];
        let mut parsed = httparse::Response::new(&mut fields);
        // A field that is wrong is no concern of who measures.
        let mut lenient = httparse::ParserConfig::default();
        lenient.allow_spaces_after_header_name_in_responses(true).ignore_invalid_headers_in_responses(true);
        let outcome = lenient.parse_response(&mut parsed, &head);
        let (Ok(httparse::Status::Complete(_)), Some(status)) = (outcome, parsed.code) else {
            return Err("the target's response has no status, or more than 128 fields");
        };
        let mut found = Head { status, closes: parsed.version == Some(0), ..Head::default() };
        let (mut length, mut chunked) = (None, false);
        for field in parsed.headers.iter() {
            let value = String::from_utf8_lossy(field.value.trim_ascii()).into_owned();
            match field.name.to_ascii_lowercase().as_str() {
                "content-length" => length = value.parse().ok(),
                "transfer-encoding" => chunked = value.to_ascii_lowercase().ends_with("chunked"),
                "connection" => found.closes = value.eq_ignore_ascii_case("close"),
                "keep-alive" => found.keep_alive = Some(value),
                "strict-transport-security" => found.hsts = Some(value),
                "server" => found.server = Some(value),
                _ => {}
            }
        }
        self.part = match (status, chunked, length) {
            // An interim response; the real one follows.
            (100..=199, ..) => {
                self.part = Part::Head;
                return Ok(());
            }
            (204 | 304, ..) | (_, false, Some(0)) => Part::Over,
            (_, true, _) => Part::ChunkLine,
            (_, _, Some(length)) => Part::Sized(length),
            (_, _, None) => Part::UntilEnd,
        };
        found.closes |= self.part == Part::UntilEnd;
        self.head = found;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str, split: usize) -> Result<Response, &'static str> {
        let mut response = Response::new();
        for piece in text.as_bytes().chunks(split) {
            response.take(piece)?;
        }
        Ok(response)
    }

    #[test]
    fn a_response_ends_where_it_says_however_it_is_split() {
        let sized =
            "HTTP/1.1 200 OK\r\nContent-Length: 5\r\nStrict-Transport-Security: max-age=1\r\n\r\nhello";
        let chunked = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nKeep-Alive: timeout=5\r\n\r\n5;x=y\r\nhello\r\n0\r\nA: b\r\n\r\n";
        let interim = "HTTP/1.1 103 Early Hints\r\nLink: a\r\n\r\nHTTP/1.1 204 No Content\r\n\r\n";
        for split in [1, 2, 7, 1000] {
            let response = read(sized, split).expect("sound");
            assert!(response.is_over() && response.body_bytes == 5 && !response.head.closes);
            assert_eq!(response.head.hsts.as_deref(), Some("max-age=1"));
            let response = read(chunked, split).expect("sound");
            assert!(response.is_over(), "{response:?}");
            assert_eq!(response.head.keep_alive.as_deref(), Some("timeout=5"));
            let response = read(interim, split).expect("sound");
            assert_eq!((response.is_over(), response.head.status), (true, 204));
            let open = read("HTTP/1.0 200 OK\r\n\r\nabc", split).expect("sound");
            assert!(open.ends_with_connection() && open.head.closes && !open.is_over());
        }
        let whole = read(&sized[..sized.len() - 1], 3).expect("sound");
        assert!(!whole.is_over());
    }

    #[test]
    fn what_is_no_http_is_refused() {
        for wrong in [
            "220 mail ready\r\n",
            "HTTP/1.1\r\n\r\n",
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
        ] {
            assert!(read(wrong, 1).is_err(), "{wrong}");
        }
        assert!(read(&format!("HTTP/1.1 200 OK\r\nA: {}", "x".repeat(LIMIT)), 4096).is_err());
    }
}
