//! Caches: a line in the head, and their table.
//!
//! In: a [`Pair`] of moments. Out: a [`Line`] where there is a cache, a [`Table`] with a row for each.

use handfast_observe::metrics::CacheSnapshot;
use handfast_text::table::Column;
use handfast_text::units::{bytes, rate};

use super::cells::{Pair, column, counts, figures, known, percent, plain, rates, times, volume, words};
use super::table::{Cell, Table, table};
use crate::screen::{Line, Look, Pieces, Shade};

/// Requests each second: from the cache, for which a backend was asked, all.
type Rates = [Option<f64>; 3];

/// Line about the requests of all caches; `None` without a cache.
pub(super) fn line(pair: &Pair<'_>, label: Line) -> Option<Line> {
    let each = pair.now.caches.iter().map(|cache| requests(pair, cache));
    let [from_it, requested, every] =
        each.reduce(|sum, each| [0, 1, 2].map(|place| Some(sum[place]? + each[place]?)))?;
    let shown = |value: Option<f64>| value.map_or("–".to_owned(), rate);
    let share = share(from_it, every).map_or("–".to_owned(), percent);
    let line = label.and(format!("{} of {} from caches, ", shown(from_it), shown(every)), Shade::Plain);
    Some(line.and(share, Shade::Good).and(format!(", {} of backends", shown(requested)), Shade::Plain))
}

pub(super) fn caches(pair: &Pair<'_>, _: Look) -> Table {
    table! {
        pair.now.caches.iter() => |cache| {
            let before = before(pair, cache);
            let since = |of: &dyn Fn(&CacheSnapshot) -> u64| since(pair, cache, of);
            let [from_it, requested, every] = requests(pair, cache);
            let past = every.zip(from_it.zip(requested)).map(|(every, (served, requested))| (every - served - requested).max(0.0));
            let (state, shade) = state(cache);
        }
        column("service", 8, 0) => words(&cache.service, Shade::Strong);
        column("state", 12, 0) => words(state, shade);
        figures("objects", 1) => counts(cache.objects, Shade::Plain);
        figures("on the disk", 0) => fullness(cache);
        figures("from it", 0) => rates(from_it, Shade::Good);
        figures("share", 0) => known(share(from_it, every), percent, Shade::Good);
        figures("of backends", 0) => rates(requested, Shade::Plain);
        figures("past it", 3) => rates(past, Shade::Plain);
        figures("read", 2) => volume(since(&|cache| cache.bytes_read));
        figures("written", 2) => volume(since(&|cache| cache.bytes_written));
        figures("evicted", 4) => rates(since(&|cache| cache.changed("evicted")), Shade::Plain);
        figures("disk read", 5) => times(mean(cache, before, "read"));
        figures("disk write", 5) => times(mean(cache, before, "write"));
        figures("disk errors", 4) => counts(cache.errors, Shade::Bad);
    }
}

fn before<'p>(pair: &Pair<'p>, cache: &CacheSnapshot) -> Option<&'p CacheSnapshot> {
    pair.before?.caches.iter().find(|known| known.service == cache.service)
}

/// The rate of a count; unknown where the cache was opened again, because it counts from zero then.
fn since(pair: &Pair<'_>, cache: &CacheSnapshot, of: &dyn Fn(&CacheSnapshot) -> u64) -> Option<f64> {
    pair.rate(of(cache), before(pair, cache).map(of).filter(|before| *before <= of(cache)))
}

fn requests(pair: &Pair<'_>, cache: &CacheSnapshot) -> Rates {
    [CacheSnapshot::served, CacheSnapshot::of_backends, CacheSnapshot::all_requests]
        .map(|of| since(pair, cache, &of))
}

fn share(served: Option<f64>, every: Option<f64>) -> Option<f64> {
    every.filter(|every| *every > 0.0).zip(served).map(|(every, served)| served / every)
}

fn state(cache: &CacheSnapshot) -> (String, Shade) {
    match &cache.problem {
        Some(problem) => (problem.clone(), Shade::Bad),
        None if cache.is_indexing => ("reads its folder".to_owned(), Shade::Warning),
        None => ("works".to_owned(), Shade::Good),
    }
}

/// `2.1 GiB of 50 GiB`.
fn fullness(cache: &CacheSnapshot) -> Cell {
    let text = format!("{} of {}", bytes(cache.disk_bytes), bytes(cache.disk_bytes_limit));
    Cell { key: Some(cache.disk_bytes as f64), ..plain(text) }
}

/// The mean time of the disk's operations between both moments, or since the cache was opened. **Units**: seconds.
fn mean(cache: &CacheSnapshot, before: Option<&CacheSnapshot>, operation: &str) -> Option<f64> {
    let (number, seconds) = *cache.disk.get(operation)?;
    let (earlier, earlier_seconds) =
        before.and_then(|before| before.disk.get(operation)).copied().unwrap_or_default();
    let (number, seconds) =
        if number > earlier { (number - earlier, seconds - earlier_seconds) } else { (number, seconds) };
    (number > 0).then(|| seconds.max(0.0) / number as f64)
}
