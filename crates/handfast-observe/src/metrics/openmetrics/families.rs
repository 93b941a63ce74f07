//! Writes families of metrics.

use std::collections::BTreeMap;
use std::fmt;
use std::time::{SystemTime, UNIX_EPOCH};

use prometheus_client::encoding::{
    DescriptorEncoder, EncodeCounterValue, EncodeGaugeValue, EncodeLabelSet, MetricEncoder, NoLabelSet,
};
use prometheus_client::metrics::MetricType;
use prometheus_client::registry::Unit;

use crate::metrics::ends::End;
use crate::metrics::histogram::Distribution;
use crate::words::Word;

/// Writes families in their order: `type name [unit], help => rows;`, the unit only where there is one.
macro_rules! families {
    ($to:ident: $($kind:ident $name:literal $([$unit:ident])?, $help:expr => $rows:expr;)*) => {{
        $(
            let unit: &[Unit] = &[$(Unit::$unit)?];
            $to.$kind(($name, unit.first()), $help, $rows)?;
        )*
        Ok(())
    }};
}
pub(super) use families;

pub(super) const NONE: [(&str, &str); 0] = [];

/// Names and values of labels.
pub(super) type Labels<'s> = Vec<(&'static str, &'s str)>;

pub(super) fn rows<'s, T, V>(
    items: impl IntoIterator<Item = (Labels<'s>, T)>,
    value: impl Fn(T) -> V,
) -> impl Iterator<Item = (Labels<'s>, V)> {
    items.into_iter().map(move |(labels, item)| (labels, value(item)))
}

/// A row for each item that has this value.
pub(super) fn known<'s, T, V>(
    items: impl IntoIterator<Item = (Labels<'s>, T)>,
    value: impl Fn(T) -> Option<V>,
) -> impl Iterator<Item = (Labels<'s>, V)> {
    items.into_iter().filter_map(move |(labels, item)| Some((labels, value(item)?)))
}

/// A row for each item and value of a further label.
pub(super) fn split<'s, T, V, R: IntoIterator<Item = (&'s str, V)>>(
    items: impl IntoIterator<Item = (Labels<'s>, T)>,
    label: &'static str,
    values: impl Fn(T) -> R,
) -> impl Iterator<Item = (Labels<'s>, V)> {
    items.into_iter().flat_map(move |(labels, item)| {
        let row = move |(word, value)| ([&labels[..], &[(label, word)]].concat(), value);
        values(item).into_iter().map(row)
    })
}

pub(super) fn words(counts: &BTreeMap<Word, u64>) -> impl Iterator<Item = (&str, u64)> {
    counts.iter().map(|(word, count)| (&**word, *count))
}

/// The same for times.
pub(super) fn times(times: &BTreeMap<Word, Distribution>) -> impl Iterator<Item = (&str, &Distribution)> {
    times.iter().map(|(word, times)| (&**word, times))
}

/// A row for each way in which something ended.
pub(super) fn split_ends<'s>(
    items: impl Iterator<Item = (Labels<'s>, &'s Vec<End>)>,
) -> impl Iterator<Item = (Labels<'s>, u64)> {
    items.flat_map(|(labels, ends)| {
        ends.iter().map(move |end| {
            let [step, side, cause] = end.words();
            let failed = if end.is_failure() { "true" } else { "false" };
            let of_end = [("step", step), ("side", side), ("cause", cause), ("failed", failed)];
            ([&labels[..], &of_end].concat(), end.count)
        })
    })
}

type Name<'n> = (&'n str, Option<&'n Unit>);

/// Writes families, each with its help, its type and its rows.
pub(super) struct Families<'a>(pub(super) DescriptorEncoder<'a>);

impl Families<'_> {
    fn family<L: EncodeLabelSet, V>(
        &mut self,
        (name, unit): Name<'_>,
        help: &str,
        kind: MetricType,
        rows: impl IntoIterator<Item = (L, V)>,
        write: impl Fn(MetricEncoder<'_>, V) -> fmt::Result,
    ) -> fmt::Result {
        let mut encoder = self.0.encode_descriptor(name, help, unit, kind)?;
        rows.into_iter().try_for_each(|(labels, value)| write(encoder.encode_family(&labels)?, value))
    }

    pub(super) fn counter<L: EncodeLabelSet, V: EncodeCounterValue>(
        &mut self,
        name: Name<'_>,
        help: &str,
        rows: impl IntoIterator<Item = (L, V)>,
    ) -> fmt::Result {
        self.family(name, help, MetricType::Counter, rows, |mut encoder, value| {
            encoder.encode_counter::<NoLabelSet, _, f64>(&value, None)
        })
    }

    pub(super) fn gauge<L: EncodeLabelSet, V: EncodeGaugeValue>(
        &mut self,
        name: Name<'_>,
        help: &str,
        rows: impl IntoIterator<Item = (L, V)>,
    ) -> fmt::Result {
        self.family(name, help, MetricType::Gauge, rows, |mut encoder, value| encoder.encode_gauge(&value))
    }

    /// Facts, each a row of labels.
    pub(super) fn info<L: EncodeLabelSet>(
        &mut self,
        name: Name<'_>,
        help: &str,
        rows: impl IntoIterator<Item = L>,
    ) -> fmt::Result {
        let rows = rows.into_iter().map(|facts| (NONE, facts));
        self.family(name, help, MetricType::Info, rows, |mut encoder, facts| encoder.encode_info(&facts))
    }

    /// Histograms in seconds, but for those that have counted nothing: they would be nine tenths of the text of a proxy that has just started.
    pub(super) fn seconds<'d, L: EncodeLabelSet>(
        &mut self,
        (name, _): Name<'_>,
        help: &str,
        rows: impl IntoIterator<Item = (L, &'d Distribution)>,
    ) -> fmt::Result {
        let name = (name, Some(&Unit::Seconds));
        let rows = rows.into_iter().filter(|(_, times)| times.count() > 0);
        self.family(name, help, MetricType::Histogram, rows, |mut encoder, times| {
            let (sum, count) = (times.sum_seconds(), times.count());
            encoder.encode_histogram::<NoLabelSet>(sum, count, &times.buckets(), None)
        })
    }
}

/// Seconds since 1970, negative before.
pub(super) fn unix_seconds(time: SystemTime) -> f64 {
    match time.duration_since(UNIX_EPOCH) {
        Ok(after) => after.as_secs_f64(),
        Err(before) => -before.duration().as_secs_f64(),
    }
}
