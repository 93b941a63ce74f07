//! Rows of the tables of parts: kinds of client, and requests.
//!
//! In: a member or a request of a report. Out: the cells of its row.

use super::percentile;
use crate::model::{Member, Request, Series};
use crate::units::{count, nanos, plain, share};

/// Headings of the columns of [`member`].
pub(crate) const MEMBER_COLUMNS: [&str; 9] =
    ["client", "share", "connections", "failed", "resumed", "handshake p50", "p99", "total p50", "p99"];

/// Headings of the columns of [`request`].
pub(crate) const REQUEST_COLUMNS: [&str; 8] =
    ["request", "share", "done", "failed", "exchange p50", "p99", "p99.9", "max"];

/// A name of at most so many letters: as long as it likes is too long for a table. What it loses is in its middle, since
/// names of one kind often begin alike.
fn short(name: &str, most: usize) -> String {
    let name = plain(name);
    let letters: Vec<char> = name.chars().collect();
    if letters.len() <= most {
        return name;
    }
    let (first, last) = (most / 2, letters.len() - (most - most / 2 - 1));
    letters[..first].iter().chain(&['…']).chain(&letters[last..]).collect()
}

fn cell(series: Option<&Series>, name: &str) -> String {
    series.and_then(|series| percentile(series, name)).map_or("-".into(), nanos)
}

/// A kind of client.
pub(crate) fn member(member: &Member) -> Vec<String> {
    let (handshake, total) = (member.handshake.as_ref(), member.total.as_ref());
    let mut row = vec![
        short(&member.name, 14),
        share(member.share),
        count(member.connections),
        count(member.failed),
        count(member.resumed),
    ];
    row.extend(["p50", "p99"].map(|name| cell(handshake, name)));
    row.extend(["p50", "p99"].map(|name| cell(total, name)));
    row
}

/// Describes the offer of a kind of client, and the agreed parameters.
pub(crate) fn member_offers(member: &Member) -> String {
    let mut agreed: Vec<(&String, u64)> = member.agreed.iter().map(|(what, count)| (what, *count)).collect();
    agreed.sort_by_key(|(what, count)| (std::cmp::Reverse(*count), *what));
    let agreed: Vec<String> = match agreed.as_slice() {
        [] => vec!["nothing".to_owned()],
        [(only, _)] => vec![(*only).clone()],
        several => several.iter().map(|(what, times)| format!("{what} ({})", count(*times))).collect(),
    };
    let hello = format!("a hello of {} bytes", count(member.hello_bytes.round().max(0.0) as u64));
    format!("{}; {hello}; agreed: {}", member.offered, agreed.join(", "))
}

/// One of several requests.
pub(crate) fn request(request: &Request) -> Vec<String> {
    let name = short(&format!("{} {}", request.method, request.path), 28);
    let exchange = request.exchange.as_ref();
    let mut row = vec![name, share(request.share), count(request.done), count(request.failed)];
    row.extend(["p50", "p99", "p99.9"].map(|name| cell(exchange, name)));
    row.push(exchange.map_or("-".into(), |series| nanos(series.max_ns)));
    row
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_name_keeps_both_its_ends() {
        assert_eq!(short("GET /a", 28), "GET /a");
        assert_eq!(short("GET /a/long/path/one", 10), "GET /…/one");
        assert_eq!(short("\u{1b}", 10), plain("\u{1b}"));
    }
}
