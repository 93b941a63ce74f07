//! Limits of the parts of a plan, and the texts that messages use for them.

/// Most headers of one request; servers take about as many.
pub(super) const MAX_HEADERS: usize = 100;
/// The form of a line in a file of requests.
pub(super) const LINE: &str = "`[WEIGHT] [METHOD] PATH`";
/// The keys of a member besides `name` and `share`: the options of the command line with the same names.
pub const KEYS: [&str; 9] =
    ["profile", "tls", "suites", "groups", "sni", "alpn", "resume", "client-certificate", "client-key"];
/// Most names of one member: they are sent with the plan.
pub const MAX_NAMES: usize = 10_000;
