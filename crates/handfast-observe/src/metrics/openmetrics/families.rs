//! How families of metrics are written.

use std::fmt;
use std::time::{SystemTime, UNIX_EPOCH};

use prometheus_client::encoding::{
    DescriptorEncoder, EncodeCounterValue, EncodeGaugeValue, EncodeLabelSet, MetricEncoder, NoLabelSet,
};
use prometheus_client::metrics::MetricType;
use prometheus_client::registry::Unit;

use crate::metrics::histogram::Distribution;

/// No labels at all.
pub(super) const NONE: [(&str, &str); 0] = [];

/// The name of a family and its unit.
pub(super) struct Name<'n>(&'n str, Option<Unit>);

impl<'n> From<&'n str> for Name<'n> {
    fn from(name: &'n str) -> Self {
        Self(name, None)
    }
}

impl<'n> From<(&'n str, Unit)> for Name<'n> {
    fn from((name, unit): (&'n str, Unit)) -> Self {
        Self(name, Some(unit))
    }
}

/// Writes families, each with its help, its type and its rows.
pub(super) struct Families<'a>(DescriptorEncoder<'a>);

impl<'a> Families<'a> {
    pub(super) fn new(encoder: DescriptorEncoder<'a>) -> Self {
        Self(encoder)
    }

    /// A family of any type.
    pub(super) fn family<L: EncodeLabelSet, V>(
        &mut self,
        Name(name, unit): Name<'_>,
        help: &str,
        kind: MetricType,
        rows: impl IntoIterator<Item = (L, V)>,
        write: impl Fn(MetricEncoder<'_>, V) -> fmt::Result,
    ) -> fmt::Result {
        let mut encoder = self.0.encode_descriptor(name, help, unit.as_ref(), kind)?;
        for (labels, value) in rows {
            write(encoder.encode_family(&labels)?, value)?;
        }
        Ok(())
    }

    /// A counter.
    pub(super) fn counter<'n, L: EncodeLabelSet, V: EncodeCounterValue>(
        &mut self,
        name: impl Into<Name<'n>>,
        help: &str,
        rows: impl IntoIterator<Item = (L, V)>,
    ) -> fmt::Result {
        self.family(name.into(), help, MetricType::Counter, rows, |mut encoder, value| {
            encoder.encode_counter::<NoLabelSet, _, f64>(&value, None)
        })
    }

    /// A gauge.
    pub(super) fn gauge<'n, L: EncodeLabelSet, V: EncodeGaugeValue>(
        &mut self,
        name: impl Into<Name<'n>>,
        help: &str,
        rows: impl IntoIterator<Item = (L, V)>,
    ) -> fmt::Result {
        self.family(name.into(), help, MetricType::Gauge, rows, |mut encoder, value| {
            encoder.encode_gauge(&value)
        })
    }

    /// Histograms, but for those that have counted nothing: they would be nine tenths of the text of a proxy that has just started.
    pub(super) fn seconds<'d, L: EncodeLabelSet>(
        &mut self,
        name: &str,
        help: &str,
        rows: impl IntoIterator<Item = (L, &'d Distribution)>,
    ) -> fmt::Result {
        let counted = rows.into_iter().filter(|(_, times)| times.count() > 0);
        self.family(
            (name, Unit::Seconds).into(),
            help,
            MetricType::Histogram,
            counted,
            |mut encoder, times| {
                let buckets = times.buckets();
                encoder.encode_histogram::<NoLabelSet>(times.sum_seconds(), times.count(), &buckets, None)
            },
        )
    }
}

/// Seconds since 1970, negative before.
pub(super) fn unix_seconds(time: SystemTime) -> f64 {
    match time.duration_since(UNIX_EPOCH) {
        Ok(after) => after.as_secs_f64(),
        Err(before) => -before.duration().as_secs_f64(),
    }
}
