//! Selection of the responses to store, and the parts of them that are kept (RFC 9111 §3).
//!
//! In: a request, its response, when both were seen. Out: a [`Stored`], or the reason why not. Content never comes here. Trailers are dropped:
//! no `Trailer` field is kept and none is sent from the cache.

use handfast_http::http1::{
    Field, Framing, HeadLimits, HeadProgress, Kind, Method, RequestHead, ResponseHead, Underscores,
    parse_response, push_field, write_fields, write_status_line,
};

use super::directives::Directives;
use super::lists::{date, date_text, elements, seconds};
use super::policy::Policy;
use super::vary::Selection;

/// Times of a request and of its response head. **Units** milliseconds since 1970.
#[derive(Clone, Copy, Debug)]
pub struct Times {
    /// Time when the request was sent.
    pub requested_ms: u64,
    /// Time when the head of the response was received.
    pub received_ms: u64,
}

/// Reason why a response is not stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[non_exhaustive]
pub enum NotStored {
    /// Not a GET without content.
    Request,
    /// `no-store` in the request.
    RequestNoStore,
    /// A partial response.
    Partial,
    /// A status that is about one request, or that `must-understand` excludes.
    Status,
    /// `no-store` in the response.
    NoStore,
    /// `private` in the response.
    Private,
    /// `Authorization` in the request, and no permission in the response.
    Authorization,
    /// `Set-Cookie` in the response.
    SetCookie,
    /// `Vary: *`.
    VaryAny,
    /// Neither fresh nor possible to validate.
    NoFreshness,
    /// Its end is the end of the connection: a broken response would look complete.
    NoLength,
    /// Larger than the limit.
    TooLarge,
}

impl NotStored {
    /// One word for logs and `detail`.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Request => "request",
            Self::RequestNoStore => "request-no-store",
            Self::Partial => "partial",
            Self::Status => "status",
            Self::NoStore => "no-store",
            Self::Private => "private",
            Self::Authorization => "authorization",
            Self::SetCookie => "set-cookie",
            Self::VaryAny => "vary",
            Self::NoFreshness => "no-freshness",
            Self::NoLength => "no-length",
            Self::TooLarge => "too-large",
        }
    }
}

/// Stored part of a response: its head without the fields of one connection, and the values for the rules.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stored {
    /// Status line, fields, empty line. Neither `Age` nor `Content-Length` nor framing.
    pub(crate) head: Vec<u8>,
    pub(crate) status: u16,
    pub(crate) received_ms: u64,
    /// `corrected_initial_age` of RFC 9111 §4.2.3, in seconds.
    pub(crate) initial_age: u64,
    /// Seconds.
    pub(crate) lifetime: u64,
    /// Value in the response, in seconds; `None`: it has none, so that the policy decides at each use.
    pub(crate) stale_while_revalidate: Option<u64>,
    /// The same.
    pub(crate) stale_if_error: Option<u64>,
    pub(crate) no_cache: bool,
    /// `must-revalidate` or what implies it here: no stale response, whatever a client permits.
    pub(crate) must_revalidate: bool,
    pub(crate) selection: Selection,
    pub(crate) etag: Option<Vec<u8>>,
    pub(crate) last_modified: Option<Vec<u8>>,
    /// `Date`, or when it was received; seconds since 1970.
    pub(crate) date: u64,
    /// From `Cache-Tag`.
    pub(crate) tags: Vec<Vec<u8>>,
}

impl Stored {
    /// Decides about a response to a request.
    ///
    /// **Errors**: the reason why it is not stored.
    pub fn decide(
        request: &RequestHead<'_>,
        response: &ResponseHead<'_>,
        policy: &Policy,
        times: Times,
    ) -> Result<Self, NotStored> {
        if request.method != Method::GET || super::key::has_content(request) {
            return Err(NotStored::Request);
        }
        match response.framing(Method::GET) {
            Framing::UntilClose => return Err(NotStored::NoLength),
            Framing::Length(length) if length > policy.object_limit => return Err(NotStored::TooLarge),
            _ => {}
        }
        Self::keep(request, response, policy, times)
    }

    /// The same without a look at method and framing: also for a head that was put together from two.
    pub(crate) fn keep(
        request: &RequestHead<'_>,
        response: &ResponseHead<'_>,
        policy: &Policy,
        times: Times,
    ) -> Result<Self, NotStored> {
        let (directives, is_targeted) = Directives::of_response(response);
        permits(request, response, policy, &directives)?;
        let selection = Selection::of(request, response).ok_or(NotStored::VaryAny)?;

        let received = times.received_ms / 1000;
        let sent_date = response.values("date").next().and_then(date);
        let age = age(response);
        let delay = times.received_ms.saturating_sub(times.requested_ms) / 1000;
        let apparent_age = sent_date.map_or(0, |date| received.saturating_sub(date));
        let date = sent_date.unwrap_or(received);
        // RFC 9111 §3: other statuses are stored only with explicit freshness or `public`.
        let is_heuristic = HEURISTIC.contains(&response.status) || directives.public;
        let explicit = explicit_lifetime(response, &directives, is_targeted, date);
        let lifetime = match explicit {
            Some(seconds) => seconds,
            None if is_heuristic => heuristic_lifetime(response, policy, date),
            None => return Err(NotStored::NoFreshness),
        };
        let must_revalidate =
            directives.must_revalidate || directives.proxy_revalidate || directives.s_maxage.is_some();

        let stored = Self {
            head: kept_head(response, sent_date.is_none().then_some(received), &directives.withheld),
            status: response.status,
            received_ms: times.received_ms,
            initial_age: apparent_age.max(age + delay),
            lifetime,
            stale_while_revalidate: directives.stale_while_revalidate,
            stale_if_error: directives.stale_if_error,
            no_cache: directives.no_cache,
            must_revalidate,
            selection,
            etag: response.values("etag").next().map(<[u8]>::to_vec),
            last_modified: response.values("last-modified").next().map(<[u8]>::to_vec),
            date,
            tags: tags(response),
        };
        let is_useful = stored.can_validate()
            || !stored.no_cache && stored.longest_use(policy) > stored.initial_age
            || policy.is_immutable && stored.status == 200;
        if is_useful { Ok(stored) } else { Err(NotStored::NoFreshness) }
    }

    /// The age until which it may be served in any case, in seconds.
    fn longest_use(&self, policy: &Policy) -> u64 {
        self.lifetime.saturating_add(self.stale_while_revalidated(policy).max(self.stale_on_error(policy)))
    }

    /// Returns true if the origin can confirm it as unchanged. Only a 200: after "404, not modified" the resource may
    /// exist.
    pub(crate) fn can_validate(&self) -> bool {
        self.status == 200 && (self.etag.is_some() || self.last_modified.is_some())
    }

    /// The head for the client whose response is stored: with the fields that `no-cache="…"` and `private="…"` withhold from others. `None` if
    /// there are none.
    pub(crate) fn own_head(&self, response: &ResponseHead<'_>) -> Option<Vec<u8>> {
        let (directives, _) = Directives::of_response(response);
        let missing_date = response.values("date").next().and_then(date).is_none().then_some(self.date);
        (!directives.withheld.is_empty()).then(|| kept_head(response, missing_date, &[]))
    }

    /// Returns true if it has this tag, in lower case.
    pub(crate) fn has_tag(&self, tag: &[u8]) -> bool {
        self.tags.iter().any(|known| known == tag)
    }

    /// Calls `read` with the parsed head; `None` if it is no head, which only a damaged file can cause.
    pub(crate) fn with_head<T>(&self, read: impl FnOnce(&ResponseHead<'_>) -> T) -> Option<T> {
        parsed(&self.head, read)
    }

    /// Restores from the head what is not saved beside it; `false` if it is no head.
    pub(crate) fn restore(&mut self) -> bool {
        let head = std::mem::take(&mut self.head);
        let received = self.received_ms / 1000;
        let restored = parsed(&head, |head| {
            self.status = head.status;
            self.etag = head.values("etag").next().map(<[u8]>::to_vec);
            self.last_modified = head.values("last-modified").next().map(<[u8]>::to_vec);
            self.date = head.values("date").next().and_then(date).unwrap_or(received);
            self.tags = tags(head);
            self.selection.language = super::vary::language(head);
        });
        self.head = head;
        restored.is_some()
    }
}

/// Reads the text of a head that this crate wrote.
pub(crate) fn parsed<T>(text: &[u8], read: impl FnOnce(&ResponseHead<'_>) -> T) -> Option<T> {
    let limits =
        HeadLimits { head: 1 << 20, start_line: 1 << 16, fields: 4096, underscores: Underscores::Forward };
    let mut fields: Vec<Field> = Vec::with_capacity(32);
    let head = parse_response(text, &mut HeadProgress::default(), &mut fields, &limits).ok()??;
    Some(read(&head))
}

/// Statuses that are about one request or one moment: another client must not receive them from here.
const NEVER: [u16; 16] = [206, 304, 401, 407, 408, 412, 413, 416, 417, 421, 425, 426, 428, 429, 431, 511];

/// Statuses that this cache knows, for `must-understand`.
const UNDERSTOOD: [u16; 28] = [
    200, 203, 204, 300, 301, 302, 303, 307, 308, 400, 402, 403, 404, 405, 406, 409, 410, 411, 414, 415, 422,
    451, 500, 501, 502, 503, 504, 505,
];

/// Statuses that may be stored without explicit freshness (RFC 9110 §15.1).
const HEURISTIC: [u16; 11] = [200, 203, 204, 300, 301, 308, 404, 405, 410, 414, 501];

fn permits(
    request: &RequestHead<'_>,
    response: &ResponseHead<'_>,
    policy: &Policy,
    directives: &Directives,
) -> Result<(), NotStored> {
    let status = response.status;
    let is_immutable = policy.is_immutable && status == 200;
    if status == 206 {
        return Err(NotStored::Partial);
    }
    let is_unknown = directives.must_understand && !UNDERSTOOD.contains(&status);
    if status < 200 || NEVER.contains(&status) || is_unknown {
        return Err(NotStored::Status);
    }
    if policy.honours_requests && Directives::of_request(request).no_store {
        return Err(NotStored::RequestNoStore);
    }
    // RFC 9111 §5.2.2.3: a cache that understands the status ignores `no-store` beside `must-understand`.
    if directives.no_store && !directives.must_understand && !is_immutable {
        return Err(NotStored::NoStore);
    }
    if directives.private {
        return Err(NotStored::Private);
    }
    let permits_authorized = directives.public || directives.must_revalidate || directives.s_maxage.is_some();
    if request.values("authorization").next().is_some() && !permits_authorized {
        return Err(NotStored::Authorization);
    }
    let is_kept = |name: &str| !directives.withheld.iter().any(|withheld| withheld == name.as_bytes());
    let sets_cookie = is_kept("set-cookie") && response.values("set-cookie").next().is_some();
    if sets_cookie && !policy.stores_set_cookie {
        return Err(NotStored::SetCookie);
    }
    Ok(())
}

/// Returns the lifetime that the response states, in seconds (RFC 9111 §4.2.1, with RFC 9213 first); `None`: it states
/// none.
fn explicit_lifetime(
    response: &ResponseHead<'_>,
    directives: &Directives,
    is_targeted: bool,
    date_of_response: u64,
) -> Option<u64> {
    let expires = || {
        // Of several the earliest; one that cannot be read is in the past.
        let all = response.values("expires").filter(|_| !is_targeted);
        Some(all.map(|text| date(text).unwrap_or(0)).min()?.saturating_sub(date_of_response))
    };
    directives.s_maxage.or(directives.max_age).or_else(expires)
}

/// RFC 9111 §4.2.2, in seconds.
fn heuristic_lifetime(response: &ResponseHead<'_>, policy: &Policy, date_of_response: u64) -> u64 {
    let Some(heuristic) = policy.heuristic else { return 0 };
    let is_old =
        response.values("pragma").flat_map(elements).any(|value| value.eq_ignore_ascii_case(b"no-cache"));
    match response.values("last-modified").next().and_then(date) {
        Some(modified) if !is_old => {
            (date_of_response.saturating_sub(modified).saturating_mul(heuristic.percent) / 100)
                .min(heuristic.limit)
        }
        _ => 0,
    }
}

/// The value of `Age`: the first member of its list; one that is no number is ignored (RFC 9111 §5.1).
fn age(response: &ResponseHead<'_>) -> u64 {
    response.values("age").next().and_then(|line| elements(line).next()).and_then(seconds).unwrap_or(0)
}

fn tags(response: &ResponseHead<'_>) -> Vec<Vec<u8>> {
    let mut tags: Vec<Vec<u8>> =
        response.values("cache-tag").flat_map(elements).map(<[u8]>::to_ascii_lowercase).collect();
    tags.sort_unstable();
    tags.dedup();
    tags
}

/// The head as it is stored (RFC 9111 §3.1).
fn kept_head(response: &ResponseHead<'_>, missing_date: Option<u64>, withheld: &[Vec<u8>]) -> Vec<u8> {
    let mut head = Vec::with_capacity(response.length);
    write_status_line(&mut head, response);
    write_fields(&mut head, response.text, response.fields, |field| {
        let name = field.name(response.text);
        let is_ours = ["age", "content-length", "trailer"]
            .iter()
            .any(|ours| name.eq_ignore_ascii_case(ours.as_bytes()));
        is_ours
            || missing_date.is_some() && name.eq_ignore_ascii_case(b"date")
            || withheld.iter().any(|withheld| name.eq_ignore_ascii_case(withheld))
    });
    if let Some(date) = missing_date {
        let is_written = push_field(&mut head, "Date", date_text(date).as_bytes());
        debug_assert!(is_written, "a date is a valid value");
    }
    head.extend_from_slice(b"\r\n");
    head
}

/// Returns true if a field of this kind is kept: those of one connection are not.
pub(crate) const fn is_kept(kind: Kind) -> bool {
    kind.is_forwarded()
}
