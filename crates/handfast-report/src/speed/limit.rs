//! The parts of the text that are only there when they were asked for: the combined limit, and another program's figures.
//!
//! In: [`Limit`], [`Compared`]. Out: lines.

use super::text::{bytes_rate, micros, name_of};
use super::{Compared, ComparedRow, Limit, Transaction};
use crate::units::{count, rate, share};

/// Lines about the limit, the first its title.
pub(super) fn limit(limit: &Limit) -> Vec<String> {
    let mut lines = vec![format!(
        "The limit: TLS library + bare TCP relay, in µs (connect, handshake, {} bytes each way, close)",
        count(u64::from(limit.exchange_bytes))
    )];
    lines.extend(limit.transactions.iter().map(|one| transaction(one, limit)));
    lines.push(format!(
        "  {:<30} {:>9} + {} = {} → {} each core",
        "each further exchange",
        micros(limit.library_exchange_ns),
        micros(limit.relay_exchange_ns),
        micros(limit.exchange_ns),
        rate(1e9 / limit.exchange_ns)
    ));
    lines.push(format!(
        "  bulk AES-128-GCM                 {:>7.3} + {:.3} = {:.3} ns a byte → {} each core",
        limit.library_byte_ns,
        limit.relay_byte_ns,
        limit.byte_ns,
        bytes_rate(limit.bytes_per_second)
    ));
    let place = if limit.relay.one_cpu { "the same CPU" } else { "another CPU" };
    lines.push(format!(
        "  The relay worked {} of the time (± {}), with its peers on {place}.",
        share(limit.relay.busy),
        share(limit.relay.time.spread)
    ));
    lines
}

fn transaction(one: &Transaction, limit: &Limit) -> String {
    format!(
        "  {:<30} {:>9} + {} = {} → {} each core",
        name_of(one.certificate.as_deref(), &one.group),
        micros(one.library.ns),
        micros(limit.relay.time.ns),
        micros(one.ns),
        rate(one.per_second)
    )
}

/// Lines about another program, the first its title.
pub(super) fn compared(compared: &Compared) -> Vec<String> {
    let mut lines = vec![
        format!("Beside {}, on one core", crate::units::plain(&compared.with)),
        format!("  {:<44}{:>14}{:>14}{:>14}", "", "ours", "theirs", "ours ÷ theirs"),
    ];
    lines.extend(compared.rows.iter().map(row));
    lines
}

fn row(row: &ComparedRow) -> String {
    let figure = |per_second: f64| match row.bytes {
        Some(bytes) => bytes_rate(per_second * f64::from(bytes)),
        None => rate(per_second),
    };
    let size = row.bytes.map_or_else(String::new, |bytes| format!(", {} KiB", bytes / 1024));
    let what = format!("{} {}{size}", row.what.word(), row.name);
    format!("  {what:<44}{:>14}{:>14}{:>14.2}", figure(row.ours), figure(row.theirs), row.ratio)
}
