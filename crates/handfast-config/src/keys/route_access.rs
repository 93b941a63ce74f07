//! The keys inside of the values of a route that decide which requests it takes.

use super::service::{PREFIX_V4, PREFIX_V6};
use crate::kind::{Count, RateKey, Span, seconds};
use crate::schema::section;

section! {
    /// A limit on the requests of a route.
    RATE_LIMIT_TABLE = "rate-limit", "{ requests = …, per = … }";

    /// Requests in the time of `per`, in the long run.
    RATE_REQUESTS: Count<u32> = "requests", Count(1..=1_000_000),
        example "100", elsewhere "rate events limit count average max";

    /// The time in which this number of requests may be sent. Permission comes back evenly: with 60 requests a minute, one each second.
    RATE_PER: Span = "per", Span { range: seconds(1)..=seconds(3600), zero: None },
        default "\"1s\"",
        why "most limits are in requests a second",
        example "\"1m\"", elsewhere "window period interval";

    /// Requests that may be sent at once after a pause.
    RATE_BURST: Count<u32> = "burst", Count(1..=1_000_000),
        absent "as many as `requests`",
        why "a page loads dozens of files at once",
        example "200", elsewhere "nodelay bucket capacity max-burst";

    /// Which requests are counted together. `client`: those of one address. `route`: all of the route. `header:NAME`: those with the same
    /// value of this field; those without it are counted by their address.
    RATE_BY: RateKey = "by", RateKey,
        default "\"client\"",
        why "one client must not use up what others need",
        example "\"header:x-api-key\"", elsewhere "key zone match";

    use PREFIX_V4, PREFIX_V6;
}
