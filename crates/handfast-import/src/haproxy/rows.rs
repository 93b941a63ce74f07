//! Every keyword of HAProxy that is known, and its conversion. A name that ends with `*` is for all that begin so.
//!
//! An example is a part of a frontend, or of what is in front of `|`; a line that begins with `%` begins another section.

mod actions;
mod bind;
mod global;
mod proxy;
mod samples;
mod server;

use std::sync::LazyLock;

use super::grammar::Line;
use crate::row::{Row, find};

/// The keywords of HAProxy 2.4 to 3.2.
pub(crate) static ROWS: LazyLock<Vec<Row>> = LazyLock::new(|| {
    let parts: [&[Row]; 6] =
        [&global::GLOBAL, &proxy::PROXY, &bind::BIND, &server::SERVER, &actions::ACTIONS, &samples::SAMPLES];
    parts.concat()
});

/// Options of `bind` without a value.
const BIND_FLAGS: [&str; 33] = [
    "accept-proxy",
    "allow-0rtt",
    "ca-sign-use-chain",
    "defer-accept",
    "force-sslv3",
    "force-tlsv10",
    "force-tlsv11",
    "force-tlsv12",
    "force-tlsv13",
    "generate-certificates",
    "no-alpn",
    "no-ca-names",
    "no-renegotiate",
    "no-sslv3",
    "no-strict-sni",
    "no-tls-tickets",
    "no-tlsv10",
    "no-tlsv11",
    "no-tlsv12",
    "no-tlsv13",
    "prefer-client-ciphers",
    "quic-force-retry",
    "renegotiate",
    "ssl",
    "ssl-f-use",
    "strict-sni",
    "tfo",
    "tls-tickets",
    "transparent",
    "v4v6",
    "v6only",
    "-",
    "--",
];
/// Options of `server` without a value, besides those that begin with `no-` or `force-`.
const SERVER_FLAGS: [&str; 24] = [
    "agent-check",
    "allow-0rtt",
    "backup",
    "check",
    "check-reuse-pool",
    "check-send-proxy",
    "check-sni-auto",
    "check-ssl",
    "check-via-socks4",
    "disabled",
    "enabled",
    "non-stick",
    "renegotiate",
    "send-proxy",
    "send-proxy-v2",
    "send-proxy-v2-ssl",
    "send-proxy-v2-ssl-cn",
    "sni-auto",
    "ssl",
    "ssl-reuse",
    "stick",
    "strict-maxconn",
    "tfo",
    "tls-tickets",
];

/// The row of a name, or of all names that begin as it does.
pub(super) fn of(name: &str) -> Option<&'static Row> {
    find(&ROWS, name)
}

/// The name of the row of an option of `bind` or `server`.
pub(super) fn option_of(kind: &str, word: &str) -> String {
    let word = word.split_once('(').map_or(word, |(word, _)| word);
    format!("{kind} … {word}")
}

/// Whether the next word is the value of an option.
pub(super) fn has_value(kind: &str, word: &str) -> bool {
    match kind {
        "bind" => !BIND_FLAGS.contains(&word),
        _ => !(SERVER_FLAGS.contains(&word) || word.starts_with("no-") || word.starts_with("force-")),
    }
}

/// The row of a line: by its first three words, two, or one.
pub(super) fn of_line(line: &Line, prefix: &str) -> Option<&'static Row> {
    let word = |at: usize| line.word(at).split_once('(').map_or(line.word(at), |(word, _)| word);
    let one = format!("{prefix}{}", word(0));
    let two = format!("{one} {}", word(1));
    let three = format!("{two} {}", word(2));
    let has_actions = |name: &str| {
        ["http-request", "http-response", "http-after-response", "option", "timeout"].contains(&name)
    };
    let found = of(&three).or_else(|| of(&two));
    match found {
        Some(row) => Some(row),
        // An action that has no row is not one that has.
        None if prefix.is_empty() && has_actions(word(0)) => of(&format!("http-response {}", word(1)))
            .filter(|_| {
                word(0) == "http-after-response"
                    && ["set-header", "add-header", "del-header"].contains(&word(1))
            }),
        None => of(&one),
    }
}

/// Those whose notes come from the code that converts them.
pub(super) fn has_own_notes(name: &str) -> bool {
    [
        "bind … crt-list",
        "bind … v6only",
        "bind … force-tlsv10",
        "bind … force-tlsv11",
        "bind … force-sslv3",
        "server … force-tlsv10",
        "server … force-tlsv11",
        "server … force-sslv3",
        "http-request auth",
        "cookie",
        "section userlist",
    ]
    .contains(&name)
}
