//! A summary of many HTTP requests: counts by status, service and backend, and percentiles of times.

use std::collections::BTreeMap;
use std::time::Duration;

use handfast_stats::Histogram;
use handfast_text::units::{bytes, count, plain, share_of};

use super::request::Request;
use super::summary::{OTHERS, Range, bounded, by_number, table, time_table};

/// Counts.
#[derive(Debug, Default)]
pub(super) struct Requests {
    number: u64,
    failed: u64,
    from_client: u64,
    to_client: u64,
    new: u64,
    reused: u64,
    retries: u64,
    range: Range,
    statuses: BTreeMap<u64, u64>,
    /// With those that failed or had a status 5xx.
    services: BTreeMap<String, [u64; 2]>,
    backends: BTreeMap<String, [u64; 2]>,
    connect: Histogram,
    first_byte: Histogram,
    duration: Histogram,
}

impl Requests {
    pub(super) fn add(&mut self, request: &Request) {
        self.number += 1;
        self.failed += u64::from(request.has_failed());
        self.from_client = self.from_client.saturating_add(request.from_client);
        self.to_client = self.to_client.saturating_add(request.to_client);
        self.new += u64::from(request.reused == Some(false));
        self.reused += u64::from(request.reused == Some(true));
        self.retries = self.retries.saturating_add(request.retries);
        self.range.add(request.ended());
        // A status has three digits; whatever else is in the file is counted together.
        *self.statuses.entry(if request.status < 1_000 { request.status } else { 999 }).or_default() += 1;
        let bad = u64::from(request.has_failed() || (500..600).contains(&request.status));
        for (counts, name) in [(&mut self.services, &request.service), (&mut self.backends, &request.backend)]
        {
            let [number, errors] = bounded(counts, name.clone(), OTHERS.into());
            *number += 1;
            *errors += bad;
        }
        let time = |seconds: f64| Duration::try_from_secs_f64(seconds).unwrap_or_default();
        if request.reused == Some(false) {
            self.connect.record(time(request.connect));
        }
        if request.answer > 0.0 {
            self.first_byte.record(time(request.first_byte()));
        }
        self.duration.record(time(request.duration()));
    }

    /// As text; empty if there was none.
    pub(super) fn text(&self) -> String {
        let Some((first, last)) = self.range.moments() else { return String::new() };
        let sent = self.new + self.reused;
        let mut text = format!(
            "{} requests ended from {first} to {last}; {} failed ({}); {} from clients, {} to clients; {} of {} on reused backend \
             connections ({}); {} retries\n",
            count(self.number),
            count(self.failed),
            share_of(self.failed, self.number),
            bytes(self.from_client),
            bytes(self.to_client),
            count(self.reused),
            count(sent),
            share_of(self.reused, sent),
            count(self.retries),
        );
        let statuses = self.statuses.iter().map(|(status, number)| {
            let status = if *status == 0 { "none".into() } else { format!("{status:03}") };
            vec![status, count(*number), share_of(*number, self.number)]
        });
        text.push_str(&table(&["status", ">requests", ""], statuses));
        for (title, counts) in [("service", &self.services), ("backend", &self.backends)] {
            let rows = by_number(counts, |[number, _]| *number).into_iter();
            let rows = rows.map(|(name, [number, errors])| {
                let name = if name.is_empty() { "-".into() } else { plain(name) };
                vec![name, count(*number), count(*errors), share_of(*errors, *number)]
            });
            text.push_str(&table(&[title, ">requests", ">errors", ""], rows));
        }
        let times = [
            ("connect to the backend", &self.connect),
            ("first byte", &self.first_byte),
            ("whole request", &self.duration),
        ];
        text + &time_table(">requests", &times)
    }
}
