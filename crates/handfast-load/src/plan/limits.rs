//! What the parts of a plan may have, as far as messages about them name it.

/// Most headers of one request; servers take about as many.
pub(super) const MOST_HEADERS: usize = 100;
/// What a line of a file of requests looks like.
pub(super) const LINE: &str = "`[WEIGHT] [METHOD] PATH`";
/// What may be said of a member, besides `name` and `share`: the options of the command line with the same names.
pub const KEYS: [&str; 9] =
    ["profile", "tls", "suites", "groups", "sni", "alpn", "resume", "client-certificate", "client-key"];
/// Most names of one member: they travel with the plan.
pub const MOST_NAMES: usize = 10_000;
