//! A summary of many connections.
//!
//! In: entries. Out: counts by cause and by service, and percentiles of times. Its memory is bounded: a file may
//! contain other names than the proxy writes, and names beyond a limit are counted together.

use std::collections::BTreeMap;
use std::time::Duration;

use handfast_stats::Histogram;
use handfast_text::calendar::Utc;
use handfast_text::table::{Column, lines};
use handfast_text::units::{bytes, count, nanos, plain, share_of};

use super::entry::{Connection, Entry, sentence};
use super::request_summary::Requests;

/// Most causes or services that are counted by name.
const MAX_NAMED: usize = 500;
/// The name of all others.
pub(super) const OTHERS: &str = "(others)";

/// Counts.
#[derive(Debug, Default)]
pub(super) struct Summary {
    connections: u64,
    failed: u64,
    missing: u64,
    to_backend: u64,
    to_client: u64,
    range: Range,
    /// By cause, side and step.
    causes: BTreeMap<[String; 3], u64>,
    services: BTreeMap<String, Service>,
    full: Histogram,
    resumed: Histogram,
    connect: Histogram,
    duration: Histogram,
    requests: Requests,
}

/// End times of the first and the last entry; `None`: there was none.
#[derive(Debug, Default)]
pub(super) struct Range(Option<(f64, f64)>);

impl Range {
    pub(super) fn add(&mut self, ended: f64) {
        let (first, last) = self.0.unwrap_or((ended, ended));
        self.0 = Some((first.min(ended), last.max(ended)));
    }

    /// Both as text.
    pub(super) fn moments(&self) -> Option<(String, String)> {
        let moment = |seconds: f64| Utc::of_seconds(seconds as i64).for_people().to_string();
        self.0.map(|(first, last)| (moment(first), moment(last)))
    }
}

#[derive(Debug, Default)]
struct Service {
    connections: u64,
    failed: u64,
}

impl Summary {
    /// Counts an entry.
    pub(super) fn add(&mut self, entry: &Entry) {
        match entry {
            Entry::Loss { lines, .. } => self.missing = self.missing.saturating_add(*lines),
            Entry::Connection(connection) => self.add_connection(connection),
            Entry::Request(request) => self.requests.add(request),
        }
    }

    fn add_connection(&mut self, connection: &Connection) {
        let failed = u64::from(connection.has_failed());
        self.connections += 1;
        self.failed += failed;
        self.to_backend = self.to_backend.saturating_add(connection.to_backend);
        self.to_client = self.to_client.saturating_add(connection.to_client);
        self.range.add(connection.ended());
        let key = [&connection.cause, &connection.side, &connection.step].map(Clone::clone);
        *bounded(&mut self.causes, key, [OTHERS.into(), String::new(), String::new()]) += 1;
        let service = bounded(&mut self.services, connection.service.clone(), OTHERS.into());
        service.connections += 1;
        service.failed += failed;
        let time = |seconds: f64| Duration::try_from_secs_f64(seconds).unwrap_or_default();
        if !connection.version.is_empty() && connection.handshake > 0.0 {
            let handshakes = if connection.resumed { &mut self.resumed } else { &mut self.full };
            handshakes.record(time(connection.handshake));
        }
        if !connection.backend.is_empty() && connection.connect > 0.0 {
            self.connect.record(time(connection.connect));
        }
        self.duration.record(time(connection.duration()));
    }

    /// As text: connections, then requests.
    pub(super) fn text(&self) -> String {
        let (connections, requests) = (self.connections_text(), self.requests.text());
        let gap = if requests.is_empty() { "" } else { "\n" };
        format!("{connections}{gap}{requests}")
    }

    fn connections_text(&self) -> String {
        let Some((first, last)) = self.range.moments() else {
            return format!("no connections{}\n", self.missing());
        };
        let mut text = format!(
            "{} connections ended from {first} to {last}; {} failed ({}); {} to backends, {} to clients{}\n",
            count(self.connections),
            count(self.failed),
            share_of(self.failed, self.connections),
            bytes(self.to_backend),
            bytes(self.to_client),
            self.missing(),
        );
        let causes = by_number(&self.causes, |number| *number).into_iter();
        let causes = causes.map(|([cause, side, step], number)| {
            let sentence = sentence(cause, side).unwrap_or_default();
            vec![plain(cause), plain(side), plain(step), count(*number), sentence.to_string()]
        });
        text.push_str(&table(&["cause", "side", "step", ">connections", ""], causes));
        let services = by_number(&self.services, |service| service.connections).into_iter();
        let services = services.map(|(name, service)| {
            let share = share_of(service.failed, service.connections);
            vec![plain(name), count(service.connections), count(service.failed), share]
        });
        text.push_str(&table(&["service", ">connections", ">failed", ""], services));
        let times = [
            ("handshake, full", &self.full),
            ("handshake, resumed", &self.resumed),
            ("connect to the backend", &self.connect),
            ("accept to close", &self.duration),
        ];
        text + &time_table(">connections", &times)
    }

    fn missing(&self) -> String {
        if self.missing == 0 { String::new() } else { format!("; {} lines are missing", count(self.missing)) }
    }
}

/// A table behind an empty line; titles with `>` are of figures.
pub(super) fn table(titles: &[&str], rows: impl Iterator<Item = Vec<String>>) -> String {
    let column = |title| match str::strip_prefix(title, '>') {
        Some(title) => Column::figures(title, 0),
        None => Column::words(title, 0, 0),
    };
    let columns: Vec<Column<'_>> = titles.iter().copied().map(column).collect();
    format!("\n{}\n", lines(&columns, &rows.collect::<Vec<_>>(), usize::MAX).join("\n"))
}

/// Times of what was counted; without those that are empty.
pub(super) fn time_table(counted: &str, times: &[(&str, &Histogram)]) -> String {
    let rows = times.iter().filter(|(_, histogram)| !histogram.is_empty()).map(|(name, histogram)| {
        let times = [0.5, 0.9, 0.99, 0.999].map(|quantile| nanos(histogram.quantile_nanos(quantile)));
        let first = [(*name).to_owned(), count(histogram.count())].into_iter();
        first.chain(times).chain([nanos(histogram.max_nanos())]).collect()
    });
    table(&["time", counted, ">50 %", ">90 %", ">99 %", ">99.9 %", ">longest"], rows)
}

/// The entry of a key; that of the others if there are too many.
pub(super) fn bounded<K: Ord, V: Default>(map: &mut BTreeMap<K, V>, key: K, others: K) -> &mut V {
    let key = if map.len() < MAX_NAMED || map.contains_key(&key) { key } else { others };
    map.entry(key).or_default()
}

/// The most frequent first.
pub(super) fn by_number<K, V>(map: &BTreeMap<K, V>, number: impl Fn(&V) -> u64) -> Vec<(&K, &V)> {
    let mut rows: Vec<_> = map.iter().collect();
    rows.sort_by_key(|(_, value)| std::cmp::Reverse(number(value)));
    rows
}
