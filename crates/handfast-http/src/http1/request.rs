//! Heads of requests.
//!
//! In: bytes from a client. Out: a [`RequestHead`], the wait for more, or the rule that was broken.

use super::Version;
use std::fmt;

use super::error::{HeadError, Rule};
use super::field::Field;
use super::framing::{Coding, Facts, Framing};
use super::head::{HeadProgress, run};
use super::host::Host;
use super::limits::HeadLimits;
use super::lines::{Lines, Stop};
use super::scan::{TOKEN, class, is_token};

/// Method of a request: a token. Methods are case-sensitive.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Method<'a>(&'a [u8]);

impl<'a> Method<'a> {
    /// `GET`.
    pub const GET: Self = Self(b"GET");
    /// `HEAD`: its answer has no body.
    pub const HEAD: Self = Self(b"HEAD");
    /// `OPTIONS`: may be about the server itself.
    pub const OPTIONS: Self = Self(b"OPTIONS");
    pub(crate) const CONNECT: Self = Self(b"CONNECT");
    const DELETE: Self = Self(b"DELETE");

    /// A method that was kept or comes from another protocol, if it is a token.
    pub fn new(text: &'a [u8]) -> Option<Self> {
        is_token(text).then_some(Self(text))
    }

    /// The method of a head that was accepted.
    pub(crate) const fn of_accepted(text: &'a [u8]) -> Self {
        Self(text)
    }

    /// As it is written.
    pub const fn as_bytes(&self) -> &'a [u8] {
        self.0
    }

    /// Returns true if it changes nothing at the origin (RFC 9110 §9.2.1, and IANA's list of methods).
    pub const fn is_safe(&self) -> bool {
        matches!(
            self.0,
            b"GET" | b"HEAD" | b"OPTIONS" | b"TRACE" | b"PROPFIND" | b"REPORT" | b"SEARCH" | b"QUERY"
        )
    }

    /// Returns true if sending it twice has the effect of sending it once (RFC 9110 §9.2.2): all safe methods, and two others.
    pub const fn is_idempotent(&self) -> bool {
        self.is_safe() || matches!(self.0, b"PUT" | b"DELETE")
    }
}

impl fmt::Debug for Method<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0.escape_ascii())
    }
}

/// Target of a request, as the client wrote it; see [`RequestHead::with_forwarded_target`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Target<'a> {
    /// A path with its query, as it was sent.
    Origin(&'a [u8]),
    /// A whole URL; its authority is equivalent to `Host`.
    Absolute {
        /// True if its scheme is `https`.
        is_secure: bool,
        /// Name and port.
        authority: &'a [u8],
        /// Rest after the authority: empty, or it starts with `/` or `?`.
        path: &'a [u8],
    },
    /// The server itself, with OPTIONS.
    Asterisk,
}

impl<'a> Target<'a> {
    /// Returns the path with its query, or `*`; a whole URL without a path has an empty one.
    pub const fn path(self) -> &'a [u8] {
        match self {
            Self::Origin(path) | Self::Absolute { path, .. } => path,
            Self::Asterisk => b"*",
        }
    }
}

/// The head of a request.
#[derive(Clone, Copy, Debug)]
pub struct RequestHead<'a> {
    /// The bytes that were parsed; fields refer to them.
    pub text: &'a [u8],
    /// Bytes of the head, an empty line before it included: the body follows.
    pub length: usize,
    /// The method.
    pub method: Method<'a>,
    /// The target.
    pub target: Target<'a>,
    /// The version of the client.
    pub version: Version,
    /// All fields, in their order.
    pub fields: &'a [Field],
    /// The only `Host`.
    pub host: Host<'a>,
    /// End of the body; never [`Framing::UntilClose`].
    pub framing: Framing,
    /// True if the client sends another request on this connection if it can.
    pub keeps_open: bool,
    /// True if the client waits for 100 before it sends the body.
    pub expects_continue: bool,
    /// True if the client reads trailers (`TE: trailers`).
    pub accepts_trailers: bool,
    /// The protocols that the client wants to change to, behind the content if there is some (RFC 9110 §7.8).
    pub upgrade: Option<&'a [u8]>,
}

impl<'a> RequestHead<'a> {
    /// Returns the head with its target in the form in which it is forwarded: a path from its `/`, or `*` (RFC 9112 §3.2.4). `buffer` receives
    /// the path if the client left its `/` out. Every rule must use this form.
    pub fn with_forwarded_target<'b>(&self, buffer: &'b mut Vec<u8>) -> RequestHead<'b>
    where
        'a: 'b,
    {
        let target = match self.target {
            Target::Absolute { path: [], .. } if self.method == Method::OPTIONS => Target::Asterisk,
            Target::Absolute { path: [], .. } => Target::Origin(b"/"),
            Target::Absolute { path: path @ [b'/', ..], .. } => Target::Origin(path),
            Target::Absolute { path, .. } => {
                buffer.clear();
                buffer.push(b'/');
                buffer.extend_from_slice(path);
                Target::Origin(buffer)
            }
            target => target,
        };
        RequestHead { target, ..*self }
    }

    /// The values of all fields with this name; the case does not matter.
    pub fn values(&self, name: &str) -> impl Iterator<Item = &'a [u8]> {
        values(self.text, self.fields, name)
    }
}

pub(super) fn values<'a>(text: &'a [u8], fields: &'a [Field], name: &str) -> impl Iterator<Item = &'a [u8]> {
    let has_name = move |field: &&Field| field.name(text).eq_ignore_ascii_case(name.as_bytes());
    fields.iter().filter(has_name).map(move |field| field.value(text))
}

/// Reads the head of a request from its first byte on; `None` waits for more, with the same `progress` and all bytes again.
///
/// **Cost**: one pass, and no allocation once `fields` has room.
/// **Source**: RFC 9112 §2 to §6; RFC 9110 §7.6.1 and RFC 9110 §10.1.1.
pub fn parse_request<'a>(
    received: &'a [u8],
    progress: &mut HeadProgress,
    fields: &'a mut Vec<Field>,
    limits: &HeadLimits,
) -> Result<Option<RequestHead<'a>>, HeadError> {
    run(received, progress, limits, false, |lines| parse(lines, fields))
}

fn parse<'a>(lines: &mut Lines<'a>, fields: &'a mut Vec<Field>) -> Result<RequestHead<'a>, Stop> {
    lines.first_byte(|byte| class(byte) & TOKEN != 0 || byte == b'\r')?;
    lines.skip_empty_line();
    let method = Method(lines.method()?);
    let target_at = lines.at;
    let target = lines.target()?;
    let version_at = lines.at;
    let version = match lines.rest_of_start_line()? {
        b"HTTP/1.1" => Version::Http11,
        b"HTTP/1.0" => Version::Http10,
        // RFC 9110 §2.5: a higher minor version is read as the highest known.
        [b'H', b'T', b'T', b'P', b'/', b'1', b'.', b'2'..=b'9'] => Version::Http11,
        [b'H', b'T', b'T', b'P', b'/', major, b'.', minor]
            if major.is_ascii_digit() && minor.is_ascii_digit() =>
        {
            return Err(Stop::Final(Rule::Version, version_at));
        }
        _ => return Err(Stop::Final(Rule::VersionSyntax, version_at)),
    };
    let target = classify(method, target).map_err(|rule| Stop::Final(rule, target_at))?;

    let mut facts = Facts { is_old: version == Version::Http10, ..Facts::default() };
    lines.fields(fields, &mut facts)?;
    let host = host(target, &facts).map_err(|rule| Stop::Final(rule, target_at))?;
    let framing = framing(method, &facts).map_err(|rule| Stop::Final(rule, facts.framing_at))?;
    Ok(RequestHead {
        text: lines.read(),
        length: lines.at,
        method,
        target,
        version,
        fields,
        host,
        framing,
        keeps_open: facts.keeps_open(),
        expects_continue: facts.expects_continue,
        accepts_trailers: facts.accepts_trailers,
        upgrade: facts.upgrade(),
    })
}

fn classify<'a>(method: Method<'_>, target: &'a [u8]) -> Result<Target<'a>, Rule> {
    match target {
        _ if method == Method::CONNECT => return Err(Rule::Connect),
        [b'/', ..] => return Ok(Target::Origin(target)),
        b"*" if method == Method::OPTIONS => return Ok(Target::Asterisk),
        _ => {}
    }
    let after = |scheme: &[u8]| {
        let (start, rest) = target.split_at_checked(scheme.len())?;
        start.eq_ignore_ascii_case(scheme).then_some(rest)
    };
    let secure = after(b"https://");
    let rest = after(b"http://").or(secure).ok_or(Rule::TargetForm)?;
    let end = rest.iter().position(|byte| matches!(byte, b'/' | b'?')).unwrap_or(rest.len());
    let (authority, path) = rest.split_at(end);
    Ok(Target::Absolute { authority, path, is_secure: secure.is_some() })
}

/// The host that the request is for. HTTP/1.0 has requests without one (RFC 9112 §3.2).
fn host<'a>(target: Target<'a>, facts: &Facts<'a>) -> Result<Host<'a>, Rule> {
    let authority = match target {
        Target::Absolute { authority, is_secure, .. } => {
            Some((Host::parse(authority).ok_or(Rule::HostMismatch)?, if is_secure { 443 } else { 80 }))
        }
        Target::Origin(_) | Target::Asterisk => None,
    };
    match (facts.host, authority) {
        // RFC 9112 §3.2.2 prefers the target. A server that reads Host would see another one, unless both are forms of the same.
        (Some(host), Some((target, port))) if !host.is_equivalent(&target, port) => Err(Rule::HostMismatch),
        (Some(host), _) => Ok(host),
        (None, _) if !facts.is_old => Err(Rule::HostMissing),
        (None, authority) => Ok(authority.map_or(Host::NONE, |(host, _)| host)),
    }
}

/// RFC 9112 §6.3, where what it leaves open is refused.
fn framing(method: Method<'_>, facts: &Facts<'_>) -> Result<Framing, Rule> {
    let framing = match (facts.coding, facts.length) {
        (Coding::None, None) => Framing::None,
        (Coding::None, Some(length)) => Framing::Length(length),
        (_, Some(_)) => return Err(Rule::LengthWithCoding),
        _ if facts.is_old => return Err(Rule::CodingInOldVersion),
        (Coding::Chunked, None) => Framing::Chunked,
        (Coding::Other, None) => return Err(Rule::Coding),
    };
    // Servers of that time do not read such a body and take it for the next request.
    let has_body = !matches!(framing, Framing::None | Framing::Length(0));
    if facts.is_old && has_body && [Method::GET, Method::HEAD, Method::DELETE].contains(&method) {
        return Err(Rule::BodyInOldVersion);
    }
    Ok(framing)
}
