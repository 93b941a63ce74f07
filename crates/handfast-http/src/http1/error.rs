//! Every way in which a message can be wrong.
//!
//! In: what the parsers found. Out: the status for the client, and a sentence for the operator (`Display`) with an escaped excerpt.

use std::fmt;

/// Most bytes of an excerpt.
const EXCERPT: usize = 32;

macro_rules! rules {
    ($($name:ident = $word:literal, $status:literal, $sentence:literal;)*) => {
        /// The rule that a message broke.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        #[non_exhaustive]
        pub enum Rule {
            $(#[doc = $sentence] $name,)*
        }

        impl Rule {
            /// Every rule.
            pub const ALL: &[Self] = &[$(Self::$name),*];

            /// Its word in logs and labels: stable.
            pub const fn name(self) -> &'static str {
                match self { $(Self::$name => $word,)* }
            }

            /// The status for a client that broke it.
            pub const fn status(self) -> u16 {
                match self { $(Self::$name => $status,)* }
            }

            /// Returns the fault, in a sentence without its end.
            pub const fn sentence(self) -> &'static str {
                match self { $(Self::$name => $sentence,)* }
            }
        }
    };
}

rules! {
    // The first line.
    FirstByte = "first-byte", 400, "the first byte does not start an HTTP/1 message";
    LineEnd = "line-end", 400, "a CR or LF is not part of a CRLF";
    Method = "method", 400, "the method is not a token followed by one space";
    Target = "target", 400, "the target has a byte outside 0x21-0x7E or a `#`, or more than one space follows it";
    TargetForm = "target-form", 400, "the target is not a path, an http URL, or `*` with OPTIONS";
    Connect = "connect", 405, "CONNECT is not supported";
    VersionSyntax = "version-syntax", 400, "the request line does not end with an HTTP version";
    Version = "version", 505, "the HTTP version is not 1.0 or 1.1";
    StatusLine = "status-line", 400, "the status line is not an HTTP/1 version, a status of three digits, and a reason";
    StartLineTooLong = "start-line-too-long", 414, "the request line is longer than the limit";
    // Fields.
    HeadTooLarge = "head-too-large", 431, "the head or trailer section is larger than the limit";
    TooManyFields = "too-many-fields", 431, "there are more fields than the limit";
    FieldName = "field-name", 400, "a field line does not start with a name and a colon";
    FieldValue = "field-value", 400, "a field value has a control byte";
    FieldBlank = "field-blank", 400, "a field value in HTTP/2 begins or ends with a blank";
    Folded = "folded", 400, "a field line starts with a blank (obsolete line folding)";
    Underscore = "underscore", 400, "a field name has an underscore";
    ConnectionOptions = "connection-options", 400, "Connection lists more than 32 field names";
    Protocol = "protocol", 400, ":protocol is not a token";
    // Host.
    HostMissing = "host-missing", 400, "there is no Host field";
    HostRepeated = "host-repeated", 400, "there is more than one Host field";
    HostSyntax = "host-syntax", 400, "Host is not a name or address with an optional port";
    HostMismatch = "host-mismatch", 400, "the authority of the target is not that of Host";
    // Framing.
    LengthSyntax = "length-syntax", 400, "Content-Length is not a number of 1 to 19 digits";
    LengthRepeated = "length-repeated", 400, "there is more than one Content-Length field";
    LengthWithCoding = "length-with-coding", 400, "there are both Content-Length and Transfer-Encoding";
    CodingInOldVersion = "coding-in-old-version", 400, "there is a Transfer-Encoding in HTTP/1.0";
    Coding = "coding", 501, "Transfer-Encoding is not one `chunked`";
    BodyInOldVersion = "body-in-old-version", 413, "a GET, HEAD or DELETE in HTTP/1.0 has a body";
    // Chunks.
    ChunkSize = "chunk-size", 400, "a chunk size is not a hexadecimal number of at most 64 bits with CRLF or an extension behind it";
    ChunkExtension = "chunk-extension", 400, "a chunk extension is not well-formed";
    ChunkExtensionTooLong = "chunk-extension-too-long", 400, "a chunk extension is longer than 256 bytes";
    ChunkExtensionsTooLarge = "chunk-extensions-too-large", 400, "all chunk extensions of a message take more than 16 KiB";
    ChunkEnd = "chunk-end", 400, "the data of a chunk is not followed by CRLF";
    Trailer = "trailer", 400, "the trailer section has a field that must not be there";
}

/// Reason why a message is refused; the connection must be closed, because the end of the message is unknown.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct HeadError {
    /// The rule that was broken.
    pub rule: Rule,
    /// True if a backend broke it.
    pub is_response: bool,
    /// Position of the fault, from the first parsed byte; of a chunked body 0.
    pub at: usize,
    excerpt: [u8; EXCERPT],
    excerpt_length: u8,
}

impl HeadError {
    pub(crate) fn new(rule: Rule, is_response: bool, text: &[u8], at: usize) -> Self {
        // Some bytes before the wrong one show what it belongs to.
        let from = at.saturating_sub(EXCERPT / 2).min(text.len());
        let shown = &text[from..text.len().min(from + EXCERPT)];
        let mut excerpt = [0; EXCERPT];
        excerpt[..shown.len()].copy_from_slice(shown);
        Self { rule, is_response, at, excerpt, excerpt_length: shown.len() as u8 }
    }

    /// The status that the client gets: 502 when a backend's answer is wrong.
    pub const fn status(&self) -> u16 {
        if self.is_response { 502 } else { self.rule.status() }
    }

    /// The bytes around the place; at most 32, not escaped.
    pub fn excerpt(&self) -> &[u8] {
        &self.excerpt[..usize::from(self.excerpt_length)]
    }
}

impl fmt::Display for HeadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}, at byte {}: \"{}\"", self.rule.sentence(), self.at, self.excerpt().escape_ascii())
    }
}

impl fmt::Debug for HeadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?} ({}, {self})", self.rule, self.status())
    }
}

impl std::error::Error for HeadError {}
