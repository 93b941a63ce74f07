//! What the proxy does: where connections go, where the time of handshakes goes, and how connections end.

use super::format::{bytes, count, counted, rate, seconds, share_of};
use super::html::Html;
use crate::control::ServiceOverview;
use crate::status::Status;
use handfast_observe::metrics::{End, HandshakeSnapshot, Limit};

/// Words and classes of the phases, in the order of [`handfast_observe::metrics::PHASES`].
const PHASE_WORDS: [(&str, &str); 4] = [
    ("hello", "waiting for the client's hello"),
    ("crypto", "cryptography"),
    ("client", "waiting for the client's last flight"),
    ("queue", "waiting for the thread, which was busy with others"),
];

/// What listens, where it goes, and how much passes.
pub(super) fn services(html: &mut Html, status: &Status) {
    let over = match status.rates.over_seconds {
        0.0 => "Rates appear a few seconds after the start.".to_owned(),
        seconds => format!("Rates are means over the last {seconds:.0} seconds."),
    };
    html.section("Services", &over);
    html.table("Service|Listens on|Goes to|#Connections now|#New|#Handshakes|#To backend|#To client");
    for service in &status.overview.services {
        let measured = status.measured.services.iter().find(|seen| seen.name == service.name);
        let rates = status.rates.services.get(&service.name).copied().unwrap_or_default();
        html.raw("<tr><td><strong>").text(&service.name).raw("</strong>");
        html.element("small", &service_words(service)).raw("</td>");
        html.cell(&service.listen.join("\n")).cell(&service.backends.join("\n"));
        let now = count(measured.map_or(0, |measured| measured.connections()));
        match measured.and_then(|measured| measured.connections_limit) {
            Some(limit) => html.number(&format!("{now} of {}", count(limit))),
            None => html.number(&now),
        };
        html.number(&rate(rates.connections)).number(&rate(rates.handshakes));
        html.number(&format!("{}/s", bytes(rates.bytes_to_backend as u64)));
        html.number(&format!("{}/s", bytes(rates.bytes_to_client as u64))).raw("</tr>");
    }
    html.end_table().raw("</section>");
}

fn service_words(service: &ServiceOverview) -> String {
    let mut words = vec![service.policy.clone()];
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

pub(super) fn handshakes(html: &mut Html, status: &Status) {
    let (full, resumed) = status.measured.services.iter().fold((0, 0), |(full, resumed), service| {
        (full + service.handshakes_full, resumed + service.handshakes_resumed)
    });
    let offered: u64 = status.measured.services.iter().map(|service| service.tickets_offered).sum();
    html.section(
        "Handshakes",
        &format!(
            "{} full, {} resumed; of {} sessions that clients offered to resume, {} were. Bars: where the mean time went.",
            count(full),
            count(resumed),
            count(offered),
            share_of(resumed, offered),
        ),
    );
    html.raw("<ul class=legend>");
    for (class, words) in PHASE_WORDS {
        html.raw(&format!("<li class={class}>")).text(words).raw("</li>");
    }
    html.raw("</ul>");
    html.table("Kind|#Count|#Median|#99 %|Where the mean time goes");
    let means = status.measured.handshakes.iter().filter_map(|seen| seen.total.mean_seconds());
    let longest = means.fold(0.0, f64::max);
    for seen in &status.measured.handshakes {
        handshake(html, seen, longest);
    }
    html.end_table().raw("</section>");
}

fn handshake(html: &mut Html, seen: &HandshakeSnapshot, longest: f64) {
    let kind = if seen.resumed { "resumed" } else { "full" };
    html.raw("<tr><td><strong>").text(&format!("{} {kind}", seen.version)).raw("</strong>");
    let agreed: Vec<_> = [&*seen.group, &seen.signature].into_iter().filter(|word| *word != "none").collect();
    html.element("small", &agreed.join(" · ")).raw("</td>");
    html.number(&count(seen.total.count()));
    for q in [0.5, 0.99] {
        html.number(&seen.total.quantile_seconds(q).map_or("".into(), seconds));
    }
    let means = seen.phases.each_ref().map(|phase| phase.mean_seconds().unwrap_or_default());
    let part = |((class, _), mean): (&(&'static str, &str), f64)| {
        let share = if longest > 0.0 { mean / longest } else { 0.0 };
        (format!("{class} {}", seconds(mean)), (*class, share))
    };
    let (words, parts): (Vec<_>, Vec<_>) = PHASE_WORDS.iter().zip(means).map(part).unzip();
    html.bar_cell(&words.join(", "), &parts, &words.join(" · ")).raw("</tr>");
}

pub(super) fn ends(html: &mut Html, status: &Status) {
    let ends: Vec<(&str, &End)> = status
        .measured
        .services
        .iter()
        .flat_map(|service| service.ends.iter().map(|end| (service.name.as_str(), end)))
        .collect();
    let all: u64 = ends.iter().map(|(_, end)| end.count).sum();
    let mut failed: Vec<_> = ends.into_iter().filter(|(_, end)| end.is_failure()).collect();
    failed.sort_by_key(|(_, end)| std::cmp::Reverse(end.count));
    let failures = failed.iter().map(|(_, end)| end.count).sum::<u64>();
    let meaning = match all {
        0 => "No connection has ended yet.".to_owned(),
        all => format!(
            "{} ended, {} failed ({}).",
            counted(all, "connection"),
            count(failures),
            share_of(failures, all)
        ),
    };
    html.section("How connections end", &meaning);
    if !failed.is_empty() {
        html.table("#Count|Service|What happened|step / side / cause");
        for (service, end) in failed {
            html.raw("<tr>").number(&count(end.count)).cell(service);
            html.cell(&capitalised(&end.sentence()));
            html.element("td class=code", &end.words().join(" / ")).raw("</tr>");
        }
        html.end_table();
    }
    for service in &status.measured.services {
        for (limit, refused) in service.refused.iter().filter(|(_, refused)| **refused > 0) {
            let name = &service.name;
            let times = counted(*refused, "time");
            let clients = counted(*refused, "connection");
            let sentence = if *limit == Limit::Rate.name() {
                format!("{name} reset {clients}: too many handshakes from their address (handshake-rate).")
            } else if *limit == Limit::Prefix.name() {
                format!(
                    "{name} reset {clients}: their address is not let in (allow-clients, refuse-clients)."
                )
            } else {
                format!("{name} reached the connection limit of the {limit} {times}.")
            };
            html.element("p", &sentence);
        }
    }
    html.raw("</section>");
}

pub(super) fn capitalised(sentence: &str) -> String {
    let mut characters = sentence.chars();
    characters.next().map_or(String::new(), |first| first.to_uppercase().chain(characters).collect())
}
