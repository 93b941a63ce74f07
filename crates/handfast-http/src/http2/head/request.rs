//! The head of a request out of a decoded text.

use super::{HeadFault, HeadText, Part};
use crate::http1::{
    Facts, Field, Framing, HeadError, HeadLimits, Host, Kind, Method, RequestHead, Rule, Span, Target,
    Version, is_token, number, target_end, trim,
};

use HeadFault::Malformed;

/// Method of the request that extended CONNECT becomes.
const GET: &[u8] = b"GET";

impl HeadText {
    /// The head of a request, once. `has_content`: its stream has not ended with its head. `key`: value of `Sec-WebSocket-Key`
    /// where [one is needed](HeadText::is_websocket).
    ///
    /// **Source**: RFC 9113 §8.3.1 and §8.5, RFC 8441 §4 and §5.
    pub fn request(&mut self, has_content: bool, key: Option<&str>) -> Result<RequestHead<'_>, HeadFault> {
        debug_assert_eq!(self.part, Part::Request);
        if let Some(fault) = self.fault {
            return Err(fault);
        }
        let is_extended = self.pseudo.protocol.is_some();
        if std::mem::take(&mut self.has_cookie) {
            let cookie = std::mem::take(&mut self.cookie);
            // An empty crumb would leave a blank at the end.
            self.push(b"cookie", trim(&cookie));
            self.cookie = cookie;
        }
        if let Some(key) = key.filter(|_| self.wants_websocket()) {
            self.push(b"sec-websocket-key", key.as_bytes());
        }
        let method = self.method()?;
        self.host_first();

        let Self { text, fields, limits, pseudo, host, .. } = self;
        let text = &text[..];
        let method = Method::of_accepted(method.get(text));
        let target = target(text, pseudo.path, method)?;
        let mut facts =
            Facts { announces_upgrade: is_extended, has_upgrade: is_extended, ..Facts::default() };
        facts.upgrade = pseudo.protocol.map(|protocol| protocol.get(text));
        note(&mut facts, fields, text, limits)?;
        let port = match pseudo.scheme.map(|scheme| scheme.get(text)) {
            Some(scheme) if scheme.eq_ignore_ascii_case(b"http") => 80,
            _ => 443,
        };
        let host = one_host(&facts, *host, text, port)?;
        let framing = match facts.length {
            Some(1..) if !has_content => return Err(Malformed("there is a content-length and no content")),
            Some(length) => Framing::Length(length),
            None if is_extended => Framing::None,
            None if has_content => Framing::Chunked,
            // Servers of HTTP/1 answer 411 to these without a length (RFC 9110 §8.6).
            None if matches!(method.as_bytes(), b"POST" | b"PUT" | b"PATCH") => Framing::Length(0),
            None => Framing::None,
        };
        Ok(RequestHead {
            text,
            length: text.len(),
            method,
            target,
            version: Version::Http11,
            fields,
            host,
            framing,
            keeps_open: true,
            expects_continue: facts.expects_continue,
            accepts_trailers: facts.accepts_trailers,
            upgrade: facts.upgrade(),
        })
    }

    /// Checks method, scheme and protocol, and returns the method that is forwarded.
    fn method(&mut self) -> Result<Span, HeadFault> {
        let method = self.pseudo.method.ok_or(Malformed("there is no :method"))?;
        let value = method.get(&self.text);
        if !is_token(value) {
            return Err(Malformed(":method is not a token"));
        }
        let is_connect = value == Method::CONNECT.as_bytes();
        match (self.pseudo.protocol, self.pseudo.scheme) {
            (None, scheme) if is_connect => {
                if scheme.is_some() || self.pseudo.path.is_some() {
                    return Err(Malformed("CONNECT has :scheme or :path"));
                }
                return Err(HeadFault::refused(Rule::Connect, &self.text, method.start));
            }
            (Some(_), _) if !is_connect => {
                return Err(Malformed(":protocol comes with another method than CONNECT"));
            }
            (_, None) => return Err(Malformed("there is no :scheme")),
            (_, Some(scheme)) if !is_scheme(scheme.get(&self.text)) => {
                return Err(Malformed(":scheme is not a scheme"));
            }
            (None, _) => return Ok(method),
            (Some(protocol), _) => {
                if !is_token(protocol.get(&self.text)) {
                    return Err(HeadFault::refused(Rule::Protocol, &self.text, protocol.start));
                }
            }
        }
        // It has to be in the text: CONNECT leaves room for it.
        let changed = Span { start: method.start, end: method.start + GET.len() as u32 };
        if let Some(place) = self.text.get_mut(changed.start as usize..changed.end as usize) {
            place.copy_from_slice(GET);
        }
        Ok(changed)
    }

    /// Moves the field of the host in front of all others (RFC 9110 §7.2).
    fn host_first(&mut self) {
        if self.pseudo.authority.is_none()
            && let Some(place) = self.fields.iter().position(|field| field.kind == Kind::Host)
        {
            self.fields[..=place].rotate_right(1);
        }
    }
}

impl HeadFault {
    /// A rule of HTTP/1 that a request broke.
    #[cold]
    fn refused(rule: Rule, text: &[u8], at: u32) -> Self {
        Self::Refused(HeadError::new(rule, false, text, at as usize))
    }
}

/// RFC 3986 §3.1.
fn is_scheme(text: &[u8]) -> bool {
    let is_rest = |byte: &u8| byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'-' | b'.');
    text.first().is_some_and(u8::is_ascii_alphabetic) && text.iter().all(is_rest)
}

fn target<'a>(text: &'a [u8], path: Option<Span>, method: Method<'_>) -> Result<Target<'a>, HeadFault> {
    let span = path.ok_or(Malformed("there is no :path"))?;
    let path = span.get(text);
    match path {
        b"*" if method == Method::OPTIONS => return Ok(Target::Asterisk),
        b"*" => return Err(HeadFault::refused(Rule::TargetForm, text, span.start)),
        [b'/', ..] => {}
        _ => return Err(Malformed(":path does not start with a slash")),
    }
    match target_end(path, 0) {
        None => Ok(Target::Origin(path)),
        Some(at) if path[at].is_ascii_control() || path[at] == b' ' => {
            Err(Malformed(":path has a control byte or a blank"))
        }
        Some(at) => Err(HeadFault::refused(Rule::Target, text, span.start + at as u32)),
    }
}

/// Takes in the fields that mean something to the proxy.
pub(super) fn note<'a>(
    facts: &mut Facts<'a>,
    fields: &mut [Field],
    text: &'a [u8],
    limits: &HeadLimits,
) -> Result<(), HeadFault> {
    for field in fields.iter_mut().filter(|field| field.kind != Kind::Other) {
        let Err(rule) = facts.note(field, text, limits) else { continue };
        let value = field.value(text);
        let is_same = || number(value).is_some_and(|length| facts.length == Some(length));
        return Err(match rule {
            // RFC 9113 §8.1.1: the length is another one than that of the content, whatever it is.
            Rule::LengthSyntax => Malformed("content-length is not a number"),
            Rule::LengthRepeated if !is_same() => Malformed("there are two values of content-length"),
            Rule::HostSyntax if value.iter().any(|byte| byte.is_ascii_control() || *byte == b' ') => {
                Malformed("the host has a control byte or a blank")
            }
            _ => HeadFault::Refused(HeadError::new(rule, facts.is_response, text, field.name_start as usize)),
        });
    }
    Ok(())
}

/// RFC 9113 §8.3.1: `:authority` and `Host` must not differ, whatever form they have.
fn one_host<'a>(
    facts: &Facts<'a>,
    named: Option<Span>,
    text: &'a [u8],
    port: u16,
) -> Result<Host<'a>, HeadFault> {
    let host = facts.host.ok_or_else(|| HeadFault::refused(Rule::HostMissing, text, 0))?;
    if let Some(span) = named {
        let named = Host::parse(span.get(text));
        if !named.is_some_and(|named| named.is_equivalent(&host, port)) {
            return Err(HeadFault::refused(Rule::HostMismatch, text, span.start));
        }
    }
    Ok(host)
}
