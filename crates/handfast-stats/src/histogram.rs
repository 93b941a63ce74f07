//! Durations counted in an HdrHistogram: exact to three digits, merged without loss, read by other people's tools.
//!
//! In: durations. Out: percentiles, and the V2 DEFLATE form that the HdrHistogram family of libraries reads.

mod wire;
#[cfg(test)]
mod tests;

use std::fmt;
use std::time::Duration;

use data_encoding::BASE64;
use hdrhistogram::serialization::{Serializer, V2DeflateSerializer};
use serde::de::Error as _;
use serde::{Deserialize, Deserializer as SerdeDeserializer, Serialize, Serializer as SerdeSerializer};

/// Least duration told from zero: 100 ns. **Units** of everything below: nanoseconds.
const LOWEST: u64 = 100;
/// Longest one told from longer ones: one hour. Longer ones are counted as this.
const HIGHEST: u64 = 3_600_000_000_000;
/// Significant decimal digits.
const DIGITS: u8 = 3;

/// How often something took how long.
///
/// **Cost**: about 170 KiB from the first sample on, whatever the count; none before.
#[derive(Clone, Default)]
pub struct Histogram(Option<Box<hdrhistogram::Histogram<u64>>>);

impl Histogram {
    /// An empty one. **Cost**: no memory until something is recorded.
    pub const fn new() -> Self {
        Self(None)
    }

    fn inner(&mut self) -> &mut hdrhistogram::Histogram<u64> {
        self.0.get_or_insert_with(|| {
            let made = hdrhistogram::Histogram::new_with_bounds(LOWEST, HIGHEST, DIGITS);
            Box::new(made.expect("the bounds are constants, and good"))
        })
    }

    /// Counts one duration.
    pub fn record(&mut self, duration: Duration) {
        self.record_nanos(u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX));
    }

    /// Counts one duration of so many nanoseconds.
    pub fn record_nanos(&mut self, nanos: u64) {
        self.inner().saturating_record(nanos);
    }

    /// Adds every sample of `other`: the result is what one histogram fed with both would be.
    pub fn merge(&mut self, other: &Self) {
        if let Some(other) = other.0.as_ref().filter(|other| !other.is_empty()) {
            self.inner().add(&**other).expect("every histogram has the same bounds");
        }
    }

    /// Forgets every sample, and keeps the memory.
    pub fn clear(&mut self) {
        if let Some(inner) = &mut self.0 {
            inner.reset();
        }
    }

    /// Samples counted.
    pub fn count(&self) -> u64 {
        self.0.as_ref().map_or(0, |inner| inner.len())
    }

    /// Whether nothing was counted.
    pub fn is_empty(&self) -> bool {
        self.count() == 0
    }

    /// Nanoseconds that the share `quantile` (0 to 1) of the samples did not exceed; 0 when there are none.
    pub fn quantile_nanos(&self, quantile: f64) -> u64 {
        self.0.as_ref().map_or(0, |inner| inner.value_at_quantile(quantile))
    }

    /// [`Histogram::quantile_nanos`] as a duration.
    pub fn quantile(&self, quantile: f64) -> Duration {
        Duration::from_nanos(self.quantile_nanos(quantile))
    }

    /// Least sample in nanoseconds, to the histogram's precision.
    pub fn min_nanos(&self) -> u64 {
        self.0.as_ref().map_or(0, |inner| inner.min())
    }

    /// Greatest sample in nanoseconds, to the histogram's precision.
    pub fn max_nanos(&self) -> u64 {
        self.0.as_ref().map_or(0, |inner| inner.max())
    }

    /// Mean in nanoseconds.
    pub fn mean_nanos(&self) -> f64 {
        self.0.as_ref().map_or(0.0, |inner| inner.mean())
    }

    /// Standard deviation in nanoseconds.
    pub fn deviation_nanos(&self) -> f64 {
        self.0.as_ref().map_or(0.0, |inner| inner.stdev())
    }

    /// The occupied buckets: greatest value in nanoseconds, and count.
    pub fn buckets(&self) -> Vec<(u64, u64)> {
        let Some(inner) = &self.0 else { return Vec::new() };
        inner.iter_recorded().map(|step| (step.value_iterated_to(), step.count_at_value())).collect()
    }

    /// The V2 DEFLATE form in base64, as HdrHistogram log files hold it.
    pub fn encode(&self) -> String {
        let empty;
        let inner = match &self.0 {
            Some(inner) => &**inner,
            None => {
                empty = Self::new().inner().clone();
                &empty
            }
        };
        let mut bytes = Vec::new();
        V2DeflateSerializer::new().serialize(inner, &mut bytes).expect("writing to memory does not fail");
        BASE64.encode(&bytes)
    }

    /// Reads what [`Histogram::encode`] wrote, from a file or a peer that nobody vouches for.
    ///
    /// **Errors**: not base64, not a histogram, one with other bounds than ours, or one with more samples than any
    /// run has. **Cost**: memory in proportion to `text`, and to one histogram; never to a length that is only claimed.
    pub fn decode(text: &str) -> Result<Self, String> {
        let bytes =
            BASE64.decode(text.as_bytes()).map_err(|error| format!("read histogram: not base64: {error}"))?;
        let read = wire::read(&bytes).map_err(|error| format!("read histogram: {error}"))?;
        Ok(if read.is_empty() { Self::new() } else { Self(Some(Box::new(read))) })
    }
}

/// One that was cleared is equal to one that never counted.
impl PartialEq for Histogram {
    fn eq(&self, other: &Self) -> bool {
        match (&self.0, &other.0) {
            (Some(mine), Some(theirs)) => mine == theirs,
            _ => self.is_empty() && other.is_empty(),
        }
    }
}

impl fmt::Debug for Histogram {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Histogram")
            .field("count", &self.count())
            .field("p50", &self.quantile(0.5))
            .field("max", &self.max_nanos())
            .finish()
    }
}

impl Serialize for Histogram {
    fn serialize<S: SerdeSerializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.encode())
    }
}

impl<'de> Deserialize<'de> for Histogram {
    fn deserialize<D: SerdeDeserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        Self::decode(&text).map_err(D::Error::custom)
    }
}
