//! The whole screen as lines.
//!
//! In: a [`Model`] and the size. Out: lines, never more or wider than there is room for. Pure.

use handfast_admin::{RecentTimes, Urgency};
use handfast_observe::metrics::{RequestSnapshot, ServiceSnapshot};
use handfast_text::table::cut;
use handfast_text::units::{bytes, count, duration, long, rate, share_of};
use handfast_text::wrap::wrapped;

use handfast_report::run::Run;

use super::cache_table;
use super::cells::{Pair, percent};
use super::model::{Model, View};
use super::request_tables::{failed_requests, routes_of};
use super::run_tables;
use super::sample::Sample;
use super::tables::{
    ATTENTION, KEYS, PHASE_WORDS, bar, failed, failures_of, requests, server_error_share, server_errors,
};
use crate::load::live;
use crate::screen::{Line, Look, Pieces, Shade, curve};

/// Lines of what needs attention first, where the terminal has this many rows.
const REASON: usize = 3;
const HIGH: usize = 20;
/// Time, in seconds, for which the replacement of a process is shown.
const TOLD: f64 = 60.0;

const HELP: [&str; 8] = [
    "digits, a b c, Tab  choose a table",
    "< and >           choose the column that it is sorted by",
    "r                 reverse the order",
    "/                 show only rows that hold a text; Esc shows all again",
    "p                 pause, go on: rates are then means over the pause",
    "arrows, Page keys move in the table",
    "q, Ctrl-C         end",
    "",
];
const HELP_PROXY: [&str; 12] = [
    "Rates are means over the time in the second line; a dash: not known yet.",
    "After a restart or an upgrade of the proxy its counters start at zero;",
    "the second line reports it.",
    "Parts of a handshake: hello: waiting for the client's hello;",
    "crypto: our own computing; client: waiting for the client's last flight;",
    "queue: waiting for the thread, which was busy with others.",
    "lag: how long an event waited while its thread worked on others;",
    "its p99 is of the last minute.",
    "p50 and p99 of connects, answers and handshakes are since the start",
    "of the proxy.",
    "",
    "Any key goes back.",
];
const HELP_RUN: [&str; 8] = [
    "Tables are of the last second; failures and handshakes also have a count",
    "since the start of the run.",
    "time: means of the steps that ended in the last second, and what part of",
    "the whole each took.",
    "When the run is over, its address does not answer; the next run there",
    "is then shown.",
    "",
    "Any key goes back.",
];

/// The screen.
pub(super) fn picture(model: &Model, width: usize, height: usize, look: Look) -> Vec<Line> {
    let Some(view) = model.view() else {
        return vec![Line::of("waiting for the proxy's answer", Shade::Faint)];
    };
    if model.help {
        let mut lines = vec![Line::of("handfast top", Shade::Strong), Line::default()];
        let help = if matches!(view, View::Proxy(_)) { &HELP_PROXY[..] } else { &HELP_RUN };
        lines.extend(HELP.iter().chain(help).map(|line| Line::of(*line, Shade::Plain)));
        lines.truncate(height);
        return lines;
    }
    let mut lines = head(model, &view, (width, height), look);
    lines.extend(tabs(model, &view, width));
    // The last line is for the keys.
    let room = height.saturating_sub(1);
    table(model, &view, model.table, (width, room, look), &mut lines);
    // Where there is room for more, the other tables follow.
    for (other, (name, _)) in view.names().iter().enumerate().filter(|(other, _)| *other != model.table) {
        if lines.len() + 4 <= room {
            lines.push(Line::default());
            lines.push(Line::of(*name, Shade::Strong));
            table(model, &view, other, (width, room, look), &mut lines);
        }
    }
    lines.truncate(room);
    lines.resize(room, Line::default());
    lines.push(foot(model, view.names().len()));
    lines.truncate(height);
    lines
}

/// Everything, one table below the other, for output without a terminal.
pub(super) fn whole(model: &Model, width: usize, look: Look) -> Vec<Line> {
    let Some(view) = model.view() else { return Vec::new() };
    let mut lines = head(model, &view, (width, usize::MAX), look);
    lines.pop();
    for (place, (name, _)) in view.names().iter().enumerate() {
        lines.push(Line::default());
        lines.push(Line::of(*name, Shade::Strong));
        table(model, &view, place, (width, usize::MAX, look), &mut lines);
    }
    lines
}

/// The tables with these names, one below the other.
pub(super) fn tables(model: &Model, names: &[&str], width: usize, look: Look) -> Vec<Line> {
    let Some(view) = model.view() else { return Vec::new() };
    let mut lines = Vec::new();
    for (place, (name, _)) in view.names().iter().enumerate().filter(|(_, (name, _))| names.contains(name)) {
        if !lines.is_empty() {
            lines.push(Line::default());
        }
        lines.push(Line::of(*name, Shade::Strong));
        table(model, &view, place, (width, usize::MAX, look), &mut lines);
    }
    lines
}

fn table(
    model: &Model,
    view: &View<'_>,
    place: usize,
    (width, room, look): (usize, usize, Look),
    to: &mut Vec<Line>,
) {
    let chosen = place == model.table;
    let filter = if chosen { model.filter.as_str() } else { "" };
    let mut lines = view.table(place, look).lines(model.orders[place], filter, width).into_iter();
    let Some(names) = lines.next() else { return };
    let rows: Vec<Line> = lines.collect();
    if rows.is_empty() {
        let none = if filter.is_empty() { "none".to_owned() } else { format!("no row holds {filter}") };
        to.push(Line::of(none, Shade::Faint));
        return;
    }
    to.push(names);
    let free = room.saturating_sub(to.len());
    let skipped = if chosen { model.scroll.min(rows.len().saturating_sub(free)) } else { 0 };
    let left = rows.len().saturating_sub(skipped + free);
    to.extend(rows.into_iter().skip(skipped).take(free));
    if left > 0
        && let Some(last) = to.last_mut()
    {
        *last = Line::of(format!("… and {} more", count(left as u64 + 1)), Shade::Faint);
    }
}

fn head(model: &Model, view: &View<'_>, (width, height): (usize, usize), look: Look) -> Vec<Line> {
    match view {
        View::Proxy(pair) => head_of_proxy(model, pair, (width, height), look),
        View::Run(run) => head_of_run(model, run, width, look),
    }
}

fn label(text: &str) -> Line {
    Line::of(format!("{text:12} "), Shade::Faint)
}

fn head_of_run(model: &Model, run: &Run, width: usize, look: Look) -> Vec<Line> {
    let title = Line::of("Handfast load", Shade::Strong)
        .and(format!(" {} · process {} · ", version(run), run.process), Shade::Plain)
        .and(&run.title, Shade::Strong);
    let over = if run.seconds == 0 { "no second yet" } else { "last second" };
    let mut lines = vec![title, where_and_when(model, over, (run.process, &run.part))];
    if run.seconds == 0 {
        lines.push(Line::of(live::preparing(run), Shade::Plain));
    } else {
        lines.extend(live::figures(run, width, look).into_iter().map(|(_, line)| line));
        lines.push(run_tables::path(run, Line::of(format!("{:12} ", "time"), Shade::Plain), width, look));
    }
    lines.push(Line::default());
    lines
}

/// `0.1.0`.
fn version(run: &Run) -> &str {
    run.program.rsplit(' ').next().unwrap_or_default()
}

fn head_of_proxy(model: &Model, pair: &Pair<'_>, (width, height): (usize, usize), look: Look) -> Vec<Line> {
    let now = pair.now;
    let over = pair.over().map_or("rates follow".to_owned(), |over| format!("rates over {over:.0} s"));
    let up = now.process.now.duration_since(now.process.started).unwrap_or_default();
    let about = format!(
        " {} · process {} · up {} · generation {} · {}",
        now.process.version,
        now.process.pid,
        long(up),
        now.reload.generation.unwrap_or_default(),
        if now.key_process.is_some() { "keys apart · " } else { "" }
    );
    let title = Line::of("Handfast", Shade::Strong).and(about, Shade::Plain);
    let title = match &now.status.not_ready_because {
        None => title.and("ready", Shade::Good),
        Some(why) => title.and(format!("not ready: {why}"), Shade::Bad),
    };
    let open: u64 = now.services.iter().map(ServiceSnapshot::connections).sum();
    let made = per_second(pair.sum(|service| service.accepted));
    let connections = label("connections").and(format!("{} open  {made} new  ", count(open)), Shade::Plain);
    let room = width.saturating_sub(connections.width());
    let connections = connections.and(curve(&model.curve, room.min(60), look.unicode), Shade::Good);
    let made =
        |sample: &Sample, is_resumed| sample.handshakes_of(|seen| seen.resumed == is_resumed).total.count();
    let [full, resumed] =
        [false, true].map(|kind| pair.rate(made(now, kind), pair.before.map(|before| made(before, kind))));
    let handshakes =
        format!("{} full, {} resumed{}", per_second(full), per_second(resumed), resumed_share(pair));
    let volume =
        |value: Option<f64>| value.map_or("–".to_owned(), |value| format!("{}/s", bytes(value as u64)));
    let [to_backend, to_client] =
        [pair.sum(|service| service.bytes_to_backend), pair.sum(|service| service.bytes_to_client)]
            .map(volume);
    let (failing, requests) = (pair.sum(failed), pair.sum(failed_requests));
    let is_failing = [failing, requests].into_iter().flatten().any(|rate| rate > 0.0);
    let serves_http = now.services.iter().any(|service| service.requests.is_some());
    let failing_requests = if serves_http {
        format!(" of connections, {} of requests", per_second(requests))
    } else {
        String::new()
    };
    let failing = label("failures")
        .and(per_second(failing) + &failing_requests, if is_failing { Shade::Bad } else { Shade::Good });
    let mut lines = vec![
        title,
        where_and_when(model, &over, (now.process.pid, &now.status.overview.configuration)),
        connections,
        label("handshakes").and(handshakes, Shade::Plain),
        label("bytes").and(format!("{to_backend} to backends, {to_client} to clients"), Shade::Plain),
        if is_failing { failing.and(most_often(pair), Shade::Plain) } else { failing },
        phases(pair, label("handshake"), width, look),
    ];
    let most = if height < HIGH { 1 } else { REASON };
    lines.extend(needs(now, width, most));
    lines.push(Line::default());
    if let Some(caches) = cache_table::line(pair, label("caches")) {
        lines.insert(3, caches);
    }
    if let Some(requests) = of_requests(pair, label("requests")) {
        lines.insert(3, requests);
    }
    lines
}

fn per_second(value: Option<f64>) -> String {
    value.map_or("–".to_owned(), rate)
}

/// HTTP requests of all services; none where no service serves HTTP.
fn of_requests(pair: &Pair<'_>, label: Line) -> Option<Line> {
    let mut all = pair.now.services.iter().filter_map(|service| service.requests.as_ref()).peekable();
    all.peek()?;
    let open: u64 = all.map(RequestSnapshot::open).sum();
    let ended = pair.sum(requests);
    let errors = server_error_share(pair.sum(server_errors), ended);
    let shade = if errors.is_some_and(|share| share > 0.0) { Shade::Bad } else { Shade::Good };
    let line = label.and(format!("{} ended, {} open, ", per_second(ended), count(open)), Shade::Plain);
    Some(line.and(format!("{} 5xx", errors.map_or("–".to_owned(), percent)), shade))
}

/// Line with the address, the interval of the rates, and lost connections, pauses or a replacement of the process.
fn where_and_when(model: &Model, over: &str, (process, more): (u32, &str)) -> Line {
    let line = Line::of(model.address.as_str(), Shade::Faint);
    if let Some((since, why)) = &model.lost {
        let seconds = (model.time - since).max(0.0);
        return match model.view() {
            Some(View::Run(_)) => line
                .and(format!(" · the run is over, or gone (no answer for {seconds:.0} s)"), Shade::Warning),
            _ => line.and(format!(" · no answer for {seconds:.0} s ({why}): asking again"), Shade::Bad),
        };
    }
    let line = line.and(format!(" · {over}"), Shade::Faint);
    if model.paused {
        return line.and(" · paused", Shade::Warning);
    }
    match &model.replaced {
        Some((at, before)) if model.time - at < TOLD => line.and(
            format!(" · process {process} has replaced {before}, {:.0} s ago", model.time - at),
            Shade::Warning,
        ),
        _ if more.is_empty() => line,
        _ => line.and(format!(" · {more}"), Shade::Faint),
    }
}

fn resumed_share(pair: &Pair<'_>) -> String {
    let [full, resumed] = [false, true].map(|is_resumed| {
        let of = |sample: &Sample| sample.handshakes_of(|seen| seen.resumed == is_resumed);
        of(pair.now).since(&pair.before.map(of).unwrap_or_default()).total.count()
    });
    match full + resumed {
        0 => String::new(),
        all => format!(" ({})", share_of(resumed, all)),
    }
}

/// The most frequent failure between both samples.
fn most_often(pair: &Pair<'_>) -> String {
    let Some(before) = pair.before else { return String::new() };
    let of_requests = pair.now.services.iter().flat_map(|service| {
        let before = before.services.iter().find(|known| known.name == service.name).map(routes_of);
        routes_of(service).iter().filter(|end| end.is_failure()).map(move |end| {
            let earlier = before.unwrap_or_default().iter().find(|known| known.is_like(end));
            let route = end.route.as_deref().map(|route| format!(" (route {route})")).unwrap_or_default();
            let happened = end.sentence();
            (end.count.saturating_sub(earlier.map_or(0, |end| end.count)), format!("{happened}{route}"))
        })
    });
    let came = pair.now.services.iter().flat_map(|service| {
        let before = before.services.iter().find(|known| known.name == service.name);
        failures_of(service).map(move |end| {
            let earlier = before.and_then(|before| before.ends.iter().find(|known| known.key() == end.key()));
            (end.count.saturating_sub(earlier.map_or(0, |end| end.count)), end.sentence())
        })
    });
    let most = came.chain(of_requests).max_by_key(|(came, _)| *came).filter(|(came, _)| *came > 0);
    most.map_or(String::new(), |(_, sentence)| format!("  mostly: {sentence}"))
}

/// Shares of the phases in the time of handshakes.
fn phases(pair: &Pair<'_>, mut line: Line, width: usize, look: Look) -> Line {
    let of = |sample: &Sample| sample.handshakes_of(|_| true);
    let times: RecentTimes = of(pair.now).since(&pair.before.map(of).unwrap_or_default());
    let count = times.total.count();
    if count == 0 {
        return line.and("no handshake", Shade::Faint);
    }
    let each = |seconds: f64| duration(seconds * 1e9 / count as f64);
    line = line.and(format!("{} ", each(times.total.sum_seconds())), Shade::Plain);
    // The words need some 84 columns.
    line.extend(bar(&times, width.saturating_sub(84).min(24), look));
    for (phase, (word, part)) in PHASE_WORDS.iter().zip(&times.phases).enumerate() {
        line = line
            .and(format!(" {word}"), Shade::Phase(phase))
            .and(format!(" {}", each(part.sum_seconds())), Shade::Plain);
    }
    line
}

/// The first thing that needs attention, with its reason.
fn needs(now: &Sample, width: usize, most: usize) -> Vec<Line> {
    let Some(first) = now.status.attention.first() else {
        return vec![label("attention").and("nothing needs attention", Shade::Good)];
    };
    let more = match now.status.attention.len() {
        1 => String::new(),
        all => format!(" ({} more: key {})", all - 1, ATTENTION + 1),
    };
    let shade = if first.urgency == Urgency::Bad { Shade::Bad } else { Shade::Warning };
    let (named, rest) = (label("attention"), label(""));
    let room = width.saturating_sub(rest.width());
    let mut text = wrapped("", "", &format!("{}{more}", first.sentence), room);
    if let Some(cut_off) = text.get(most..).filter(|rest| !rest.is_empty()) {
        let last = format!("{} {}", text[most - 1], cut_off.join(" "));
        text.truncate(most);
        text[most - 1] = cut(&last, room).into_owned();
    }
    let lines = text.into_iter().enumerate();
    lines
        .map(|(place, text)| if place == 0 { named.clone() } else { rest.clone() }.and(text, shade))
        .collect()
}

/// The names of the tables, the chosen one marked; shorter ones where the line is too short, in as many lines as they need.
fn tabs(model: &Model, view: &View<'_>, width: usize) -> Vec<Line> {
    let names = view.names();
    let tab = |place: usize, name: &str| {
        let shade = if place == model.table { Shade::Chosen } else { Shade::Plain };
        Line::of(format!("{} {name}", key(place)), shade).and(" ", Shade::Plain)
    };
    let room = |line: &Line, tab: &Line| line.width() + tab.width() <= width + 1;
    let lines = |name: fn(&(&'static str, &'static str)) -> &'static str| {
        let mut lines = vec![Line::default()];
        for (place, names) in names.iter().enumerate() {
            let tab = tab(place, name(names));
            match lines.last_mut() {
                Some(line) if room(line, &tab) => line.extend(tab),
                _ => lines.push(tab),
            }
        }
        lines
    };
    let whole = lines(|names| names.0);
    if whole.len() == 1 { whole } else { lines(|names| names.1) }
}

/// The key that chooses a table.
fn key(place: usize) -> &'static str {
    KEYS.get(place..=place).unwrap_or_default()
}

fn foot(model: &Model, tables: usize) -> Line {
    match (model.typing, model.filter.is_empty()) {
        (true, _) => {
            Line::of(format!("/{}_  Enter keeps it, Esc shows all rows", model.filter), Shade::Strong)
        }
        (false, false) => {
            Line::of(format!("rows that hold \"{}\"; Esc shows all", model.filter), Shade::Warning)
        }
        (false, true) => {
            let last = key(tables.saturating_sub(1));
            let keys = format!("1-{last} table  < > sort  r reverse  / filter  p pause  ? help  q quit");
            Line::of(keys, Shade::Faint)
        }
    }
}
