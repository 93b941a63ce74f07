//! The rules by section: what happens to a second request after a first one was answered.
//!
//! Each row: section, first request, its response, seconds until the second request, the second request, what happens. `{-60}` in a field is
//! the date of the response, 60 seconds earlier. The expectation is one of: `not stored: reason`, `bypass: reason`, `other variant`, `504`,
//! `hit STATUS`, `while revalidated`, `ask` (with the names of conditions, and when a stale one is served instead).

use super::{request, response};
use crate::rules::lists::date_text;
use crate::rules::policy::{Heuristic, Policy};
use crate::rules::reuse::{OriginFailure, Verdict, bypass, only_if_cached};
use crate::rules::stored::{Stored, Times};

const NOW: u64 = 1_800_000_000;

type Row = (&'static str, &'static str, &'static str, u64, &'static str, &'static str);

#[rustfmt::skip]
const ROWS: &[Row] = &[
    // RFC 9111 §3: storing.
    ("RFC 9111 §3", "", "Cache-Control: max-age=60", 0, "", "hit 200"),
    ("RFC 9111 §3", "POST /\nContent-Length: 0", "Cache-Control: max-age=60", 0, "", "not stored: request"),
    ("RFC 9111 §3", "Content-Length: 3", "Cache-Control: max-age=60", 0, "", "not stored: request"),
    ("RFC 9111 §3", "HEAD /", "Cache-Control: max-age=60", 0, "", "not stored: request"),
    ("RFC 9111 §3", "", "206 Partial\nCache-Control: max-age=60\nContent-Range: bytes 0-1/9", 0, "", "not stored: partial"),
    ("RFC 9111 §3", "", "304 Not Modified\nCache-Control: max-age=60", 0, "", "not stored: status"),
    ("RFC 9111 §3", "", "416 Range\nCache-Control: max-age=60", 0, "", "not stored: status"),
    ("RFC 9111 §3", "", "412 Precondition\nCache-Control: max-age=60", 0, "", "not stored: status"),
    ("RFC 9111 §3", "", "401 Unauthorized\nCache-Control: max-age=60", 0, "", "not stored: status"),
    ("RFC 9111 §3", "", "404 Not Found\nCache-Control: max-age=60", 0, "", "hit 404"),
    ("RFC 9111 §3", "", "404 Not Found", 0, "", "not stored: no-freshness"),
    ("RFC 9111 §3", "", "404 Not Found\nETag: \"a\"", 0, "", "not stored: no-freshness"),
    ("RFC 9111 §3", "", "599 Whatever\nCache-Control: max-age=60", 0, "", "hit 599"),
    ("RFC 9111 §3", "", "ETag: \"a\"", 0, "", "ask If-None-Match"),
    ("RFC 9111 §3", "", "", 0, "", "not stored: no-freshness"),
    ("RFC 9111 §3", "", "Cache-Control: max-age=60\nSet-Cookie: a=b", 0, "", "not stored: set-cookie"),
    // Of RFC 2965, which no browser follows.
    ("RFC 9111 §3", "", "Cache-Control: max-age=60\nSet-Cookie2: a=b", 0, "", "hit 200"),
    ("RFC 9111 §3", "", "502 Bad Gateway\nLast-Modified: {-1000}", 0, "", "not stored: no-freshness"),
    ("RFC 9111 §3", "", "201 Created\nETag: \"a\"", 0, "", "not stored: no-freshness"),
    ("RFC 9111 §3", "", "Cache-Control: max-age=60, no-cache=\"Set-Cookie\"\nSet-Cookie: a=b", 0, "", "hit 200"),
    // RFC 9111 §3.5: Authorization.
    ("RFC 9111 §3.5", "Authorization: x", "Cache-Control: max-age=60", 0, "", "not stored: authorization"),
    ("RFC 9111 §3.5", "Authorization: x", "Cache-Control: max-age=60, public", 0, "", "hit 200"),
    ("RFC 9111 §3.5", "Authorization: x", "Cache-Control: max-age=60, must-revalidate", 0, "", "hit 200"),
    ("RFC 9111 §3.5", "Authorization: x", "Cache-Control: s-maxage=60", 0, "", "hit 200"),
    ("RFC 9111 §3.5", "Authorization: x", "Cache-Control: max-age=60, proxy-revalidate", 0, "", "not stored: authorization"),
    // RFC 9111 §4.1: Vary.
    ("RFC 9111 §4.1", "Foo: 1", "Cache-Control: max-age=60\nVary: Foo", 0, "Foo: 1", "hit 200"),
    ("RFC 9111 §4.1", "Foo: 1", "Cache-Control: max-age=60\nVary: foo", 0, "FOO: 2", "other variant"),
    ("RFC 9111 §4.1", "Foo: 1", "Cache-Control: max-age=60\nVary: Foo", 0, "", "other variant"),
    ("RFC 9111 §4.1", "", "Cache-Control: max-age=60\nVary: Foo", 0, "Foo: 1", "other variant"),
    ("RFC 9111 §4.1", "", "Cache-Control: max-age=60\nVary: Foo", 0, "Foo:", "other variant"),
    ("RFC 9111 §4.1", "", "Cache-Control: max-age=60\nVary: Foo, *", 0, "", "not stored: vary"),
    ("RFC 9111 §4.1", "", "Cache-Control: max-age=60\nVary:\nVary: *", 0, "", "not stored: vary"),
    ("RFC 9111 §4.1", "Foo: 1, 2", "Cache-Control: max-age=60\nVary: Foo", 0, "Foo: 1\nFoo: 2", "hit 200"),
    ("RFC 9111 §4.1", "Foo: \"1,2\"", "Cache-Control: max-age=60\nVary: Foo", 0, "Foo: \"1, 2\"", "other variant"),
    ("RFC 9111 §4.1", "Foo: a", "Cache-Control: max-age=60\nVary: Foo", 0, "Foo: A", "other variant"),
    ("RFC 9111 §4.1", "Foo: a, b", "Cache-Control: max-age=60\nVary: Foo", 0, "Foo: b, a", "other variant"),
    ("RFC 9111 §4.1", "Accept-Encoding: gzip, deflate, br", "Cache-Control: max-age=60\nVary: Accept-Encoding\nContent-Encoding: br", 0, "Accept-Encoding: br;q=0.9, x-gzip, sdch", "hit 200"),
    ("RFC 9111 §4.1", "Accept-Encoding: gzip, br, zstd", "Cache-Control: max-age=60\nVary: Accept-Encoding", 0, "Accept-Encoding: *", "hit 200"),
    ("RFC 9111 §4.1", "Accept-Encoding: gzip, br", "Cache-Control: max-age=60\nVary: Accept-Encoding\nContent-Encoding: br", 0, "Accept-Encoding: gzip, br;q=0", "other variant"),
    ("RFC 9111 §4.1", "Accept-Encoding: gzip", "Cache-Control: max-age=60\nVary: Accept-Encoding\nContent-Encoding: gzip", 0, "Accept-Encoding: gzip, identity;q=0", "other variant"),
    ("RFC 9111 §4.1", "Accept-Encoding: identity", "Cache-Control: max-age=60\nVary: Accept-Encoding", 0, "Accept-Encoding:", "hit 200"),
    ("RFC 9111 §4.1", "", "Cache-Control: max-age=60\nVary: Accept-Encoding\nContent-Encoding: gzip", 0, "Accept-Encoding: identity", "other variant"),
    ("RFC 9111 §4.1", "Accept-Encoding: identity", "Cache-Control: max-age=60\nVary: Accept-Encoding", 0, "", "other variant"),
    ("RFC 9111 §4.1", "Accept-Encoding: gzip, deflate", "Cache-Control: max-age=60\nVary: Accept-Encoding\nContent-Encoding: deflate", 0, "Accept-Encoding: gzip", "other variant"),
    ("RFC 9111 §4.1", "Accept-Encoding: gzip, deflate", "Cache-Control: max-age=60\nVary: Accept-Encoding\nContent-Encoding: deflate", 0, "Accept-Encoding: deflate,gzip", "hit 200"),
    ("RFC 9111 §4.1", "Accept-Language: en, de", "Cache-Control: max-age=60\nVary: Accept-Language", 0, "Accept-Language: DE,EN", "hit 200"),
    ("RFC 9111 §4.1", "Accept-Language: en", "Cache-Control: max-age=60\nVary: Accept-Language\nContent-Language: de", 0, "Accept-Language: fr;q=0.5, de", "hit 200"),
    ("RFC 9111 §4.1", "Accept-Language: en", "Cache-Control: max-age=60\nVary: Accept-Language\nContent-Language: de", 0, "Accept-Language: fr, de", "other variant"),
    ("RFC 9111 §4.1", "Accept-Language: en", "Cache-Control: max-age=60\nVary: Accept-Language\nContent-Language: de", 0, "Accept-Language: fr, de;q=0.9", "other variant"),
    // RFC 9111 §4.2.1: freshness.
    ("RFC 9111 §4.2.1", "", "Cache-Control: max-age=60", 59, "", "hit 200"),
    ("RFC 9111 §4.2.1", "", "Cache-Control: max-age=60\nETag: \"a\"", 60, "", "ask If-None-Match"),
    ("RFC 9111 §4.2.1", "", "Cache-Control: max-age=1, s-maxage=60", 59, "", "hit 200"),
    ("RFC 9111 §4.2.1", "", "Cache-Control: max-age=60, s-maxage=1", 2, "", "ask"),
    ("RFC 9111 §4.2.1", "", "Cache-Control: max-age=60\nExpires: {-60}\nDate: {0}", 59, "", "hit 200"),
    ("RFC 9111 §4.2.1", "", "Expires: {60}\nDate: {0}", 59, "", "hit 200"),
    ("RFC 9111 §4.2.1", "", "Expires: {60}\nDate: {0}", 60, "", "ask"),
    ("RFC 9111 §4.2.1", "", "Expires: {60}\nDate: nonsense", 59, "", "hit 200"),
    ("RFC 9111 §4.2.1", "", "Expires: 0\nDate: {0}\nETag: \"a\"", 0, "", "ask If-None-Match"),
    // RFC 9111 §4.2: whatever the case; and whatever day of the week it says.
    ("RFC 9111 §4.2", "", "Expires: FRI, 15 JAN 2027 08:01:00 gmt\nDate: {0}", 59, "", "hit 200"),
    ("RFC 9111 §4.2", "", "Expires: Mon Jan 15 08:01:00 2027\nDate: {0}", 59, "", "hit 200"),
    ("RFC 9111 §4.2", "", "Expires: Friday, 15-jan-27 08:01:00 GMT\nDate: {0}", 59, "", "hit 200"),
    ("RFC 9111 §4.2", "", "Expires: Fri, 15 Jan 2027 08:01:00 UTC\nDate: {0}\nETag: \"a\"", 0, "", "ask If-None-Match"),
    ("RFC 9111 §4.2", "", "Expires: Fri, 32 Jan 2027 08:01:00 GMT\nDate: {0}\nETag: \"a\"", 0, "", "ask If-None-Match"),
    ("RFC 9111 §4.2", "", "Expires: Fri, 15 Jan 27 08:01:00 GMT\nDate: {0}\nETag: \"a\"", 0, "", "ask If-None-Match"),
    ("RFC 9111 §4.2.1", "", "Expires: {60}\nExpires: 0\nDate: {0}\nETag: \"a\"", 0, "", "ask If-None-Match"),
    ("RFC 9111 §4.2.1", "", "Cache-Control: max-age=60, max-age=1", 2, "", "ask"),
    ("RFC 9111 §4.2.1", "", "Cache-Control: max-age=60\nCache-Control: max-age=1", 2, "", "ask"),
    ("RFC 9111 §4.2.1", "", "Cache-Control: max-age=\"60\"", 59, "", "hit 200"),
    ("RFC 9111 §4.2.1", "", "Cache-Control: max-age='60'", 0, "", "not stored: no-freshness"),
    ("RFC 9111 §4.2.1", "", "Cache-Control: max-age=60.0", 0, "", "not stored: no-freshness"),
    ("RFC 9111 §4.2.1", "", "Cache-Control: max-age=-60", 0, "", "not stored: no-freshness"),
    ("RFC 9111 §4.2.1", "", "Cache-Control: max-age= 60", 0, "", "not stored: no-freshness"),
    ("RFC 9111 §4.2.1", "", "Cache-Control: max-age=60, s-maxage=x", 0, "", "not stored: no-freshness"),
    ("RFC 9111 §4.2.1", "", "Cache-Control: extension=\"max-age=60, x\", max-age=1", 2, "", "ask"),
    ("RFC 9111 §4.2.1", "", "Cache-Control: MAX-AGE=60", 59, "", "hit 200"),
    ("RFC 9111 §1.2.2", "", "Cache-Control: max-age=99999999999999999999999", 1 << 30, "", "hit 200"),
    // RFC 9111 §4.2.3: age.
    ("RFC 9111 §4.2.3", "", "Cache-Control: max-age=60\nAge: 30", 29, "", "hit 200"),
    ("RFC 9111 §4.2.3", "", "Cache-Control: max-age=60\nAge: 30", 30, "", "ask"),
    ("RFC 9111 §4.2.3", "", "Cache-Control: max-age=60\nDate: {-50}", 9, "", "hit 200"),
    ("RFC 9111 §4.2.3", "", "Cache-Control: max-age=60\nDate: {-50}", 10, "", "ask"),
    ("RFC 9111 §4.2.3", "", "Cache-Control: max-age=60\nDate: {50}", 59, "", "hit 200"),
    ("RFC 9111 §5.1", "", "Cache-Control: max-age=60\nAge: x", 59, "", "hit 200"),
    ("RFC 9111 §5.1", "", "Cache-Control: max-age=60\nAge: -90", 59, "", "hit 200"),
    ("RFC 9111 §5.1", "", "Cache-Control: max-age=60\nAge: 90.0", 59, "", "hit 200"),
    ("RFC 9111 §5.1", "", "Cache-Control: max-age=60\nAge: 90,0\nETag: \"a\"", 0, "", "ask If-None-Match"),
    ("RFC 9111 §5.1", "", "Cache-Control: max-age=60\nAge: 90\nAge: 0\nETag: \"a\"", 0, "", "ask If-None-Match"),
    ("RFC 9111 §5.1", "", "Cache-Control: max-age=60\nAge: 0\nAge: 90", 59, "", "hit 200"),
    ("RFC 9111 §5.1", "", "Cache-Control: max-age=60\nAge: 0,90", 0, "", "hit 200"),
    ("RFC 9111 §5.1", "", "Cache-Control: max-age=60\nAge: 30, 30", 29, "", "hit 200"),
    ("RFC 9111 §5.1", "", "Cache-Control: max-age=60\nAge: 30\nAge: 30", 30, "", "ask"),
    // RFC 9111 §4.2.4: stale responses.
    ("RFC 9111 §4.2.4", "", "Cache-Control: max-age=60", 70, "Cache-Control: max-stale=10", "hit 200"),
    ("RFC 9111 §4.2.4", "", "Cache-Control: max-age=60", 71, "Cache-Control: max-stale=10", "ask"),
    ("RFC 9111 §4.2.4", "", "Cache-Control: max-age=60", 9999, "Cache-Control: max-stale", "hit 200"),
    ("RFC 9111 §4.2.4", "", "Cache-Control: max-age=60, must-revalidate", 70, "Cache-Control: max-stale=10", "ask"),
    ("RFC 9111 §4.2.4", "", "Cache-Control: max-age=60, proxy-revalidate", 70, "Cache-Control: max-stale=10", "ask"),
    ("RFC 9111 §4.2.4", "", "Cache-Control: s-maxage=60", 70, "Cache-Control: max-stale=10", "ask"),
    // RFC 9111 §5.2.1: requests.
    ("RFC 9111 §5.2.1.1", "", "Cache-Control: max-age=60", 5, "Cache-Control: max-age=4", "ask or on error"),
    ("RFC 9111 §5.2.1.1", "", "Cache-Control: max-age=60", 5, "Cache-Control: max-age=5", "hit 200"),
    ("RFC 9111 §5.2.1.1", "", "Cache-Control: max-age=60", 0, "Cache-Control: max-age=0", "ask or on error"),
    ("RFC 9111 §5.2.1.3", "", "Cache-Control: max-age=60", 50, "Cache-Control: min-fresh=20", "ask or on error"),
    ("RFC 9111 §5.2.1.3", "", "Cache-Control: max-age=60", 40, "Cache-Control: min-fresh=20", "hit 200"),
    ("RFC 9111 §5.2.1.4", "", "Cache-Control: max-age=60\nLast-Modified: {-9}\nDate: {0}", 0, "Cache-Control: no-cache", "ask If-Modified-Since or on error"),
    ("RFC 9111 §5.2.1.4", "", "Cache-Control: max-age=60, stale-if-error=10", 69, "Cache-Control: no-cache", "ask or on error"),
    ("RFC 9111 §5.2.1.4", "", "Cache-Control: max-age=60, must-revalidate", 59, "Cache-Control: no-cache", "ask"),
    ("RFC 9111 §5.2.1.5", "", "Cache-Control: max-age=60", 0, "Cache-Control: no-store", "bypass: no-store"),
    ("RFC 9111 §5.2.1.5", "Cache-Control: no-store", "Cache-Control: max-age=60", 0, "", "not stored: request-no-store"),
    ("RFC 9111 §5.2.1.7", "", "Cache-Control: max-age=60", 61, "Cache-Control: only-if-cached", "504"),
    ("RFC 9111 §5.2.1.7", "", "Cache-Control: max-age=60", 59, "Cache-Control: only-if-cached", "hit 200"),
    ("RFC 9111 §5.4", "", "Cache-Control: max-age=60", 0, "Pragma: no-cache", "hit 200"),
    // RFC 9111 §5.2.2: responses.
    ("RFC 9111 §5.2.2.2", "", "Cache-Control: max-age=60, must-revalidate", 59, "", "hit 200"),
    ("RFC 9111 §5.2.2.3", "", "599 x\nCache-Control: max-age=60, must-understand", 0, "", "not stored: status"),
    ("RFC 9111 §5.2.2.3", "", "Cache-Control: max-age=60, must-understand, no-store", 0, "", "hit 200"),
    ("RFC 9111 §5.2.2.4", "", "Cache-Control: max-age=60, No-Cache\nETag: \"a\"", 0, "", "ask If-None-Match"),
    ("RFC 9111 §5.2.2.4", "", "Cache-Control: max-age=60, no-cache", 0, "", "not stored: no-freshness"),
    ("RFC 9111 §5.2.2.4", "", "Cache-Control: max-age=60, no-cache=\"a b\"\nETag: \"a\"", 0, "", "ask If-None-Match"),
    ("RFC 9111 §5.2.2.4", "", "Cache-Control: max-age=60, no-cache=\"A\"\nA: 1", 0, "", "hit 200"),
    ("RFC 9111 §5.2.2.5", "", "Cache-Control: max-age=60, nO-StOrE", 0, "", "not stored: no-store"),
    ("RFC 9111 §5.2.2.7", "", "Cache-Control: max-age=60, private", 0, "", "not stored: private"),
    ("RFC 9111 §5.2.2.7", "", "Cache-Control: max-age=60, private=\"A\"\nA: 1", 0, "", "hit 200"),
    // RFC 5861.
    ("RFC 5861 §3", "", "Cache-Control: max-age=60, stale-while-revalidate=10", 69, "", "while revalidated"),
    ("RFC 5861 §3", "", "Cache-Control: max-age=60, stale-while-revalidate=10", 70, "", "ask"),
    ("RFC 5861 §3", "", "Cache-Control: max-age=0, stale-while-revalidate=10", 1, "", "while revalidated"),
    ("RFC 5861 §3", "", "Cache-Control: max-age=60, stale-while-revalidate=10, must-revalidate", 69, "", "ask"),
    ("RFC 5861 §4", "", "Cache-Control: max-age=60, stale-if-error=10", 69, "", "ask or on error"),
    ("RFC 5861 §4", "", "Cache-Control: max-age=60, stale-if-error=10", 70, "", "ask"),
    ("RFC 5861 §4", "", "Cache-Control: max-age=60", 69, "Cache-Control: stale-if-error=10", "ask or on error"),
    ("RFC 5861 §4", "", "Cache-Control: s-maxage=60, stale-if-error=10", 69, "", "ask"),
    // RFC 9213.
    ("RFC 9213 §2.2", "", "CDN-Cache-Control: max-age=60\nCache-Control: no-store", 59, "", "hit 200"),
    ("RFC 9213 §2.2", "", "CDN-Cache-Control: max-age=1\nCache-Control: max-age=60\nExpires: {60}", 2, "", "ask"),
    ("RFC 9213 §2.2", "", "CDN-Cache-Control: no-store\nCache-Control: max-age=60", 0, "", "not stored: no-store"),
    ("RFC 9213 §2.2", "", "CDN-Cache-Control: no-store=?0, max-age=60", 59, "", "hit 200"),
    ("RFC 9213 §2.1", "", "CDN-Cache-Control: max-age=1;a=b, public\nCache-Control: max-age=60", 2, "", "ask"),
    ("RFC 9213 §2.1", "", "CDN-Cache-Control:\nCache-Control: max-age=60", 59, "", "hit 200"),
    ("RFC 9213 §2.1", "", "CDN-Cache-Control: max-age=1,,\nCache-Control: max-age=60", 59, "", "hit 200"),
    ("RFC 9213 §2.1", "", "CDN-Cache-Control: Max-Age=1\nCache-Control: max-age=60", 59, "", "hit 200"),
    ("RFC 9213 §2.1", "", "CDN-Cache-Control: max-age=\"60\"\nCache-Control: max-age=60", 0, "", "not stored: no-freshness"),
    // RFC 9110: conditions and ranges of clients.
    ("RFC 9110 §13.1.2", "", "Cache-Control: max-age=60\nETag: W/\"a\"", 0, "If-None-Match: \"x\", \"a\"", "hit 304"),
    ("RFC 9110 §13.1.2", "", "Cache-Control: max-age=60\nETag: \"a\"", 0, "If-None-Match: \"b\"", "hit 200"),
    ("RFC 9110 §13.1.2", "", "Cache-Control: max-age=60", 0, "If-None-Match: *", "hit 304"),
    ("RFC 9110 §13.1.3", "", "Cache-Control: max-age=60\nLast-Modified: {-9}\nDate: {0}", 0, "If-Modified-Since: {-9}", "hit 304"),
    ("RFC 9110 §13.1.3", "", "Cache-Control: max-age=60\nLast-Modified: {-9}\nDate: {0}", 0, "If-Modified-Since: {-10}", "hit 200"),
    ("RFC 9110 §13.2.2", "", "Cache-Control: max-age=60\nETag: \"a\"\nLast-Modified: {-9}", 0, "If-None-Match: \"b\"\nIf-Modified-Since: {0}", "hit 200"),
    ("RFC 9111 §4.3.2", "", "Cache-Control: max-age=60\nDate: {0}", 0, "If-Modified-Since: {-1}", "hit 200"),
    ("RFC 9111 §4.3.2", "", "Cache-Control: max-age=60\nDate: {0}", 0, "If-Modified-Since: {0}", "hit 304"),
    ("RFC 9111 §4.3.2", "", "404 x\nCache-Control: max-age=60\nETag: \"a\"", 0, "If-None-Match: \"a\"", "hit 404"),
    ("RFC 9111 §4.3.2", "", "Cache-Control: max-age=60", 0, "If-Match: \"a\"", "bypass: precondition"),
    ("RFC 9110 §14.2", "", "Cache-Control: max-age=60", 0, "Range: bytes=0-1", "hit 206 0..2"),
    ("RFC 9110 §14.2", "", "Cache-Control: max-age=60", 0, "Range: bytes=8-99", "hit 206 8..10"),
    ("RFC 9110 §14.2", "", "Cache-Control: max-age=60", 0, "Range: bytes=3-", "hit 206 3..10"),
    ("RFC 9110 §14.2", "", "Cache-Control: max-age=60", 0, "Range: bytes=-3", "hit 206 7..10"),
    ("RFC 9110 §14.2", "", "Cache-Control: max-age=60", 0, "Range: bytes=-99", "hit 206 0..10"),
    ("RFC 9110 §14.2", "", "Cache-Control: max-age=60", 0, "Range: bytes=10-", "hit 416"),
    ("RFC 9110 §14.2", "", "Cache-Control: max-age=60", 0, "Range: bytes=-0", "hit 416"),
    ("RFC 9110 §14.2", "", "Cache-Control: max-age=60", 0, "Range: bytes=5-4", "hit 200"),
    ("RFC 9110 §14.2", "", "Cache-Control: max-age=60", 0, "Range: bytes=0-1, 3-4", "hit 200"),
    ("RFC 9110 §14.2", "", "Cache-Control: max-age=60", 0, "Range: items=0-1", "hit 200"),
    ("RFC 9110 §14.2", "", "404 x\nCache-Control: max-age=60", 0, "Range: bytes=0-1", "hit 404"),
    ("RFC 9110 §13.1.5", "", "Cache-Control: max-age=60\nETag: \"a\"", 0, "Range: bytes=0-1\nIf-Range: \"a\"", "hit 206 0..2"),
    ("RFC 9110 §13.1.5", "", "Cache-Control: max-age=60\nETag: \"a\"", 0, "Range: bytes=0-1\nIf-Range: \"b\"", "hit 200"),
    ("RFC 9110 §13.1.5", "", "Cache-Control: max-age=60\nETag: W/\"a\"", 0, "Range: bytes=0-1\nIf-Range: W/\"a\"", "hit 200"),
    ("RFC 9110 §13.1.5", "", "Cache-Control: max-age=60\nLast-Modified: {-9}\nDate: {0}", 0, "Range: bytes=0-1\nIf-Range: {-9}", "hit 206 0..2"),
    ("RFC 9110 §13.1.5", "", "Cache-Control: max-age=60\nLast-Modified: {0}\nDate: {0}", 0, "Range: bytes=0-1\nIf-Range: {0}", "hit 200"),
    // Fields that are not in the key.
    ("poisoning", "", "Cache-Control: max-age=60", 0, "X-Forwarded-Host: evil", "bypass: unkeyed-field"),
    ("poisoning", "", "Cache-Control: max-age=60", 0, "Forwarded: host=evil", "bypass: unkeyed-field"),
    ("poisoning", "", "Cache-Control: max-age=60", 0, "X-Forwarded-Anything: 1", "bypass: unkeyed-field"),
    ("poisoning", "", "Cache-Control: max-age=60", 0, "X-Forwarded-For: 192.0.2.1\nX-Real-IP: 192.0.2.1", "hit 200"),
    ("poisoning", "", "Cache-Control: max-age=60", 0, "X-Original-URL: /admin", "bypass: unkeyed-field"),
    ("poisoning", "", "Cache-Control: max-age=60", 0, "X-HTTP-Method-Override: DELETE", "bypass: unkeyed-field"),
    ("poisoning", "", "Cache-Control: max-age=60", 0, "Content-Length: 3", "bypass: content"),
    ("poisoning", "", "Cache-Control: max-age=60", 0, "Upgrade: websocket\nConnection: Upgrade", "bypass: precondition"),
    ("poisoning", "", "Cache-Control: max-age=60", 0, "POST /\nContent-Length: 0", "bypass: method"),
];

/// Rows where the proxy writes forwarding fields itself.
#[rustfmt::skip]
const TRUSTING: &[Row] = &[
    ("poisoning", "", "Cache-Control: max-age=60", 0, "X-Forwarded-Proto: https\nForwarded: for=x", "hit 200"),
    ("poisoning", "", "Cache-Control: max-age=60", 0, "X-Rewrite-URL: /x", "bypass: unkeyed-field"),
    ("poisoning", "", "Cache-Control: max-age=60", 0, "X-Host: x", "bypass: unkeyed-field"),
    ("poisoning", "", "Cache-Control: max-age=60", 0, "Front-End-Https: off", "bypass: unkeyed-field"),
];

/// The same with heuristic freshness (RFC 9111 §4.2.2).
#[rustfmt::skip]
const HEURISTIC: &[Row] = &[
    ("RFC 9111 §4.2.2", "", "Last-Modified: {-1000}\nDate: {0}", 99, "", "hit 200"),
    ("RFC 9111 §4.2.2", "", "Last-Modified: {-1000}\nDate: {0}", 100, "", "ask If-Modified-Since"),
    ("RFC 9111 §4.2.2", "", "Last-Modified: {-100000}\nDate: {0}", 500, "", "ask If-Modified-Since"),
    ("RFC 9111 §4.2.2", "", "403 x\nLast-Modified: {-1000}\nDate: {0}", 0, "", "not stored: no-freshness"),
    ("RFC 9111 §4.2.2", "", "599 x\nCache-Control: public\nLast-Modified: {-1000}\nDate: {0}", 0, "", "hit 599"),
    ("RFC 9111 §4.2.2", "", "Expires: 0\nLast-Modified: {-1000}\nDate: {0}", 0, "", "ask If-Modified-Since"),
    ("RFC 9111 §4.2.2", "", "Cache-Control: max-age=0\nLast-Modified: {-1000}\nDate: {0}", 0, "", "ask If-Modified-Since"),
];

/// Rows where the path is configured as immutable.
#[rustfmt::skip]
const IMMUTABLE: &[Row] = &[
    ("immutable", "", "Cache-Control: no-cache, max-age=0", 99_999, "Cache-Control: no-cache", "hit 200"),
    ("immutable", "", "Cache-Control: no-store", 99_999, "", "hit 200"),
    ("immutable", "", "", 99_999, "", "hit 200"),
    ("immutable", "", "404 Not Found", 0, "", "not stored: no-freshness"),
    ("immutable", "", "404 Not Found\nCache-Control: max-age=60", 61, "", "ask"),
    ("immutable", "", "Cache-Control: private", 0, "", "not stored: private"),
    ("immutable", "Authorization: x", "", 0, "", "not stored: authorization"),
    ("immutable", "", "Set-Cookie: a=b", 0, "", "not stored: set-cookie"),
];

/// Stored while the operator had no settings for stale responses, used when `stale-while-revalidate` is 10 s and `stale-if-error` 20 s.
#[rustfmt::skip]
const SAID_LATER: &[Row] = &[
    ("RFC 5861 §3", "", "Cache-Control: max-age=60", 69, "", "while revalidated"),
    ("RFC 5861 §3", "", "Cache-Control: max-age=60", 70, "", "ask or on error"),
    ("RFC 5861 §4", "", "Cache-Control: max-age=60", 80, "", "ask"),
    ("RFC 5861 §3", "", "Cache-Control: max-age=60, stale-while-revalidate=1, stale-if-error=1", 61, "", "ask"),
    ("RFC 9111 §4.2.4", "", "Cache-Control: max-age=60, must-revalidate", 60, "", "ask"),
    ("RFC 5861 §4", "", "503 Unavailable\nCache-Control: max-age=60", 70, "", "ask"),
];

/// The same times, written before the response came.
#[rustfmt::skip]
const SAID: &[Row] = &[
    ("RFC 9111 §3", "", "502 Bad Gateway\nLast-Modified: {-1000}", 0, "", "not stored: no-freshness"),
    ("RFC 9111 §3", "", "503 Unavailable\nCache-Control: max-age=0", 0, "", "while revalidated"),
    ("RFC 5861 §4", "", "503 Unavailable\nCache-Control: max-age=0, stale-while-revalidate=0", 0, "", "not stored: no-freshness"),
];

/// Rows where a stale response is served for 30 s while the origin is unreachable.
#[rustfmt::skip]
const UNREACHABLE: &[Row] = &[
    ("RFC 9111 §4.2.4", "", "Cache-Control: max-age=60", 89, "", "ask or if unreachable"),
    ("RFC 9111 §4.2.4", "", "Cache-Control: max-age=60", 90, "", "ask"),
    ("RFC 9111 §4.2.4", "", "Cache-Control: max-age=60, must-revalidate", 61, "", "ask"),
    ("RFC 9111 §4.2.4", "", "Cache-Control: max-age=60, proxy-revalidate", 61, "", "ask"),
    ("RFC 9111 §4.2.4", "", "Cache-Control: s-maxage=60", 61, "", "ask"),
    ("RFC 9111 §4.2.4", "", "Cache-Control: max-age=60, no-cache\nETag: \"a\"", 1, "", "ask If-None-Match"),
    ("RFC 9111 §4.2.4", "", "503 Unavailable\nCache-Control: max-age=60", 61, "", "ask"),
    ("RFC 5861 §4", "", "Cache-Control: max-age=60, stale-if-error=10", 69, "", "ask or on error"),
    ("RFC 5861 §4", "", "Cache-Control: max-age=60, stale-if-error=10", 70, "", "ask"),
    ("RFC 5861 §4", "", "Cache-Control: max-age=60", 100, "Cache-Control: stale-if-error=50", "ask or on error"),
];

fn dated(text: &str) -> String {
    let mut parts = text.split('{');
    let mut out = parts.next().unwrap_or("").to_owned();
    for part in parts {
        let (seconds, rest) = part.split_once('}').expect("a closing brace");
        let seconds: i64 = seconds.parse().expect("a number of seconds");
        out.push_str(&date_text(NOW.saturating_add_signed(seconds)));
        out.push_str(rest);
    }
    out
}

/// Returns the outcome of a row: with the policy under which the response is stored, and that under which it is used.
fn outcome(row: &Row, [kept_by, policy]: [&Policy; 2]) -> String {
    let (_, first, answer, later, second, _) = row;
    let (first, answer, second) = (request(&dated(first)), response(&dated(answer)), request(&dated(second)));
    let times = Times { requested_ms: NOW * 1000, received_ms: NOW * 1000 };
    let stored = match Stored::decide(&first, &answer, kept_by, times) {
        Ok(stored) => stored,
        Err(reason) => return format!("not stored: {}", reason.word()),
    };
    if let Some(reason) = bypass(&second, policy) {
        return format!("bypass: {}", reason.word());
    }
    if !stored.selection.fits(&second) {
        return "other variant".into();
    }
    let now_ms = (NOW + later) * 1000;
    match stored.verdict(&second, policy, now_ms) {
        Verdict::Fresh => {
            let answer = stored.answer(&second, Some(10), now_ms);
            let content = if answer.status == 206 { format!(" {:?}", answer.content) } else { String::new() };
            format!("hit {}{content}", answer.status)
        }
        Verdict::WhileRevalidated => "while revalidated".into(),
        _ if only_if_cached(&second, policy) => "504".into(),
        Verdict::Stale | Verdict::Refused => {
            let conditions: String = stored.conditions().iter().map(|(name, _)| format!(" {name}")).collect();
            let serves = |failure| stored.serves_on_error(&second, policy, now_ms, failure);
            let otherwise = match (serves(OriginFailure::Status), serves(OriginFailure::Unreachable)) {
                (true, true) => " or on error",
                (false, true) => " or if unreachable",
                _ => "",
            };
            format!("ask{conditions}{otherwise}")
        }
    }
}

#[test]
fn each_section_has_its_effect() {
    let heuristic = Policy { heuristic: Some(Heuristic { percent: 10, limit: 400 }), ..Policy::default() };
    let immutable = Policy { is_immutable: true, ..Policy::default() };
    let trusting = Policy { trusts_forwarding: true, ..Policy::default() };
    let unreachable = Policy { stale_if_unreachable: 30, ..Policy::default() };
    let policy = Policy { stale_while_revalidate: 10, stale_if_error: 20, ..Policy::default() };
    let usual = Policy::default();
    let tables = [
        (ROWS, [&usual, &usual]),
        (TRUSTING, [&trusting, &trusting]),
        (HEURISTIC, [&heuristic, &heuristic]),
        (IMMUTABLE, [&immutable, &immutable]),
        (SAID_LATER, [&usual, &policy]),
        (SAID, [&policy, &policy]),
        (UNREACHABLE, [&unreachable, &unreachable]),
    ];
    let mut wrong = Vec::new();
    for (rows, policies) in tables {
        for row in rows {
            let found = outcome(row, policies);
            if found != row.5 {
                wrong.push(format!("{row:?}\n    is: {found}"));
            }
        }
    }
    assert!(wrong.is_empty(), "{} rows:\n{}", wrong.len(), wrong.join("\n"));
}
