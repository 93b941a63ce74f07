//! Sections about the proxy's work: destinations of connections, times of handshakes, and ends of connections.

use handfast_html::{Table, bar_with_words, card, legend, with_small};
use handfast_observe::metrics::{End, HandshakeSnapshot, Limit, MaintenanceSnapshot, ServiceSnapshot};
use maud::{Markup, html};

use super::format::{bytes, count, counted, rate, seconds, share_of};
use crate::control::ServiceOverview;
use crate::status::Status;

/// Names, colours and words of the phases, in the order of [`handfast_observe::metrics::PHASES`].
const PHASES: [(&str, &str, &str); 4] = [
    ("hello", "blue", "waiting for the client's hello"),
    ("crypto", "orange", "cryptography"),
    ("client", "teal", "waiting for the client's last flight"),
    ("queue", "purple", "waiting for the thread, which was busy with others"),
];

/// Backends of a service that are listed beside it; more of them are in the table of backends only.
const LISTED: usize = 4;

/// Table of the services: listeners, destinations and traffic.
pub(super) fn services(status: &Status) -> Markup {
    let over = match status.rates.over_seconds {
        0.0 => "Rates appear a few seconds after the start.".to_owned(),
        seconds => format!("Rates are means over the last {seconds:.0} seconds."),
    };
    let headings = "Service|Listens on|Goes to|#Connections now|#New|#Handshakes|#To backend|#To client";
    let mut table = Table::new("Services", headings);
    for service in &status.overview.services {
        let measured = status.measured.services.iter().find(|seen| seen.name == service.name);
        let rates = status.rates.services.get(&service.name).copied().unwrap_or_default();
        let now = count(measured.map_or(0, |measured| measured.connections()));
        let limit = measured.and_then(|measured| measured.connections_limit);
        let all = service.backends.len();
        table.row([
            with_small(&service.name, &service_words(service, measured)),
            html! { (service.listen.join("\n")) },
            html! { @if all > LISTED { (counted(all as u64, "backend")) } @else { (service.backends.join("\n")) } },
            html! { (now) @if let Some(limit) = limit { " of " (count(limit)) } },
            html! { (rate(rates.connections)) },
            html! { (rate(rates.handshakes)) },
            html! { (bytes(rates.bytes_to_backend as u64)) "/s" },
            html! { (bytes(rates.bytes_to_client as u64)) "/s" },
        ]);
    }
    card("Services", &over, &table.draw())
}

fn service_words(service: &ServiceOverview, measured: Option<&ServiceSnapshot>) -> String {
    let maintenance = measured.and_then(|measured| measured.maintenance.as_ref());
    let mut words: Vec<String> = maintenance.map(MaintenanceSnapshot::in_words).into_iter().collect();
    words.push(service.policy.clone());
    match service.client_certificates.as_str() {
        "" | "off" => {}
        rule => words.push(format!("client certificates: {rule}")),
    }
    if service.backends.len() > 1 {
        words.push(service.balance.clone());
    }
    words.extend(service.exceptions.iter().cloned());
    words.retain(|word| !word.is_empty());
    words.join(" · ")
}

pub(super) fn handshakes(status: &Status) -> Markup {
    let (full, resumed) = status.measured.services.iter().fold((0, 0), |(full, resumed), service| {
        (full + service.handshakes_full, resumed + service.handshakes_resumed)
    });
    let offered: u64 = status.measured.services.iter().map(|service| service.tickets_offered).sum();
    let meaning = format!(
        "{} full, {} resumed; of {} sessions that clients offered to resume, {} were. Bars: where the mean time went.",
        count(full),
        count(resumed),
        count(offered),
        share_of(resumed, offered),
    );
    let headings = "Kind|#Count|#Median|#99 %|Where the mean time goes";
    let mut table = Table::new("Handshakes", headings);
    let means = status.measured.handshakes.iter().filter_map(|seen| seen.total.mean_seconds());
    let longest = means.fold(0.0, f64::max);
    status.measured.handshakes.iter().for_each(|seen| table.row(handshake(seen, longest)));
    let content = html! { (legend(PHASES.map(|(_, colour, words)| (colour, words)))) (table.draw()) };
    card("Handshakes", &meaning, &content)
}

fn handshake(seen: &HandshakeSnapshot, longest: f64) -> [Markup; 5] {
    let kind = format!("{} {}", seen.version, if seen.resumed { "resumed" } else { "full" });
    let agreed: Vec<_> = [&*seen.group, &seen.signature].into_iter().filter(|word| *word != "none").collect();
    let [median, most] = super::tables::quantiles(&seen.total);
    let means = seen.phases.each_ref().map(|phase| phase.mean_seconds().unwrap_or_default());
    let part = |((name, colour, _), mean): ((&str, &'static str, &str), f64)| {
        let share = if longest > 0.0 { mean / longest } else { 0.0 };
        (format!("{name} {}", seconds(mean)), (colour, share))
    };
    let (words, parts): (Vec<_>, Vec<_>) = PHASES.into_iter().zip(means).map(part).unzip();
    [
        with_small(&kind, &agreed.join(" · ")),
        html! { (count(seen.total.count())) },
        html! { (median) },
        html! { (most) },
        bar_with_words(&parts, &words.join(" · ")),
    ]
}

pub(super) fn ends(status: &Status) -> Markup {
    let services = &status.measured.services;
    let sum = |of: fn(&&End) -> bool| -> u64 {
        services.iter().flat_map(|service| &service.ends).filter(of).map(|end| end.count).sum()
    };
    let (all, failures) = (sum(|_| true), sum(|end| end.is_failure()));
    let meaning = match all {
        0 => "No connection has ended yet.".to_owned(),
        all => {
            let share = share_of(failures, all);
            format!("{} ended, {} failed ({share}).", counted(all, "connection"), count(failures))
        }
    };
    let mut table = Table::new("How connections end", "What happened|#Count|step / side / cause");
    for service in services {
        let mut failed: Vec<_> = service.ends.iter().filter(|end| end.is_failure()).collect();
        failed.sort_by_key(|end| std::cmp::Reverse(end.count));
        if !failed.is_empty() {
            table.group(html! { (service.name) });
        }
        for end in failed {
            let words = end.words().join(" / ");
            table.row([capitalised(&end.sentence()), count(end.count), words].map(|text| html! { (text) }));
        }
    }
    let content = html! {
        @if failures > 0 { (table.draw()) }
        @for service in services { @for (limit, refused) in &service.refused { @if *refused > 0 {
            p { (refusal(&service.name, limit, *refused)) }
        } } }
    };
    card("How connections end", &meaning, &content)
}

fn refusal(service: &str, limit: &str, refused: u64) -> String {
    let clients = counted(refused, "connection");
    match limit {
        limit if limit == Limit::Rate.name() => {
            format!("{service} reset {clients}: too many handshakes from their address (handshake-rate).")
        }
        limit if limit == Limit::Prefix.name() => {
            format!("{service} reset {clients}: their address is not let in (allow-clients, refuse-clients).")
        }
        limit => {
            format!("{service} reached the connection limit of the {limit} {}.", counted(refused, "time"))
        }
    }
}

pub(super) fn capitalised(sentence: &str) -> String {
    let mut characters = sentence.chars();
    characters.next().map_or(String::new(), |first| first.to_uppercase().chain(characters).collect())
}
