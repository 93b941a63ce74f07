//! Durations counted in an HdrHistogram: exact to three digits, merged without loss, read by other people's tools.
//!
//! In: durations. Out: percentiles, and the V2 DEFLATE form that the HdrHistogram family of libraries reads.

mod wire;
#[cfg(test)]
mod tests;

use std::fmt;
use std::time::Duration;

use data_encoding::{BASE64, DecodeError};
use hdrhistogram::serialization::{Serializer, V2DeflateSerializer};
use serde::de::Error as _;
use serde::{Deserialize, Deserializer as SerdeDeserializer, Serialize, Serializer as SerdeSerializer};

pub use wire::WireError;

/// Least duration that differs from zero: 100 ns. **Units** of everything below: nanoseconds.
const LOWEST: u64 = 100;
/// Longest duration: one hour. Longer ones are counted as this.
const HIGHEST: u64 = 3_600_000_000_000;
/// Significant decimal digits.
const DIGITS: u8 = 3;

/// Reason why a text is no histogram.
#[derive(Debug, thiserror::Error)]
pub enum HistogramError {
    /// It is not base64.
    #[error("read histogram: not base64: {0}")]
    Base64(#[from] DecodeError),
    /// The bytes are no histogram of ours.
    #[error("read histogram: {0}")]
    Bytes(#[from] WireError),
}

/// Counts of durations.
///
/// **Cost**: about 170 KiB while it is recorded into; one to three KiB after [`Histogram::pack`], and as it is read from a
/// file. All methods accept a packed one, and unpack it temporarily (tens of microseconds).
#[derive(Clone, Default)]
pub struct Histogram(Storage);

/// Storage of the samples.
#[derive(Clone, Default)]
enum Storage {
    /// There are none.
    #[default]
    Nothing,
    /// Counters, to be recorded into.
    Open(Box<Counters>),
    /// V2 DEFLATE that we wrote or checked, and its number of samples.
    Packed(Box<[u8]>, u64),
}

type Counters = hdrhistogram::Histogram<u64>;

impl Histogram {
    /// An empty one. **Cost**: no memory until something is recorded.
    pub const fn new() -> Self {
        Self(Storage::Nothing)
    }

    /// The counters, to record into.
    fn open(&mut self) -> &mut Counters {
        let counters = match std::mem::take(&mut self.0) {
            Storage::Open(counters) => counters,
            Storage::Packed(bytes, _) => Box::new(unpack(&bytes)),
            Storage::Nothing => {
                let made = Counters::new_with_bounds(LOWEST, HIGHEST, DIGITS);
                Box::new(made.expect("the bounds are constants, and good"))
            }
        };
        self.0 = Storage::Open(counters);
        match &mut self.0 {
            Storage::Open(counters) => counters,
            _ => unreachable!("set above"),
        }
    }

    /// Looks at the counters; `None` when there are no samples.
    fn with_counters<T>(&self, look: impl FnOnce(&Counters) -> T) -> Option<T> {
        match &self.0 {
            Storage::Nothing => None,
            Storage::Open(counters) => (!counters.is_empty()).then(|| look(counters)),
            Storage::Packed(bytes, _) => Some(look(&unpack(bytes))),
        }
    }

    /// Packs it, for histograms that are kept by the thousand and read once.
    pub fn pack(&mut self) {
        if let Storage::Open(counters) = &self.0 {
            self.0 = match counters.len() {
                0 => Storage::Nothing,
                count => Storage::Packed(write(counters).into(), count),
            };
        }
    }

    /// Counts one duration.
    pub fn record(&mut self, duration: Duration) {
        self.record_nanos(u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX));
    }

    /// Counts one duration in nanoseconds.
    pub fn record_nanos(&mut self, nanos: u64) {
        self.open().saturating_record(nanos);
    }

    /// Adds every sample of `other`: the result equals one histogram with all samples.
    pub fn merge(&mut self, other: &Self) {
        other.with_counters(|other| self.open().add(other).expect("every histogram has the same bounds"));
    }

    /// Removes every sample, and keeps the memory.
    pub fn clear(&mut self) {
        match &mut self.0 {
            Storage::Open(counters) => counters.reset(),
            other => *other = Storage::Nothing,
        }
    }

    /// Samples counted.
    pub fn count(&self) -> u64 {
        match &self.0 {
            Storage::Nothing => 0,
            Storage::Open(counters) => counters.len(),
            Storage::Packed(_, count) => *count,
        }
    }

    /// Returns true if nothing was counted.
    pub fn is_empty(&self) -> bool {
        self.count() == 0
    }

    /// Nanoseconds that the share `quantile` (0 to 1) of the samples did not exceed; 0 when there are none.
    pub fn quantile_nanos(&self, quantile: f64) -> u64 {
        self.with_counters(|counters| counters.value_at_quantile(quantile)).unwrap_or_default()
    }

    /// [`Histogram::quantile_nanos`] as a duration.
    pub fn quantile(&self, quantile: f64) -> Duration {
        Duration::from_nanos(self.quantile_nanos(quantile))
    }

    /// Least sample in nanoseconds, to the histogram's precision.
    pub fn min_nanos(&self) -> u64 {
        self.with_counters(|counters| counters.min()).unwrap_or_default()
    }

    /// Greatest sample in nanoseconds, to the histogram's precision.
    pub fn max_nanos(&self) -> u64 {
        self.with_counters(|counters| counters.max()).unwrap_or_default()
    }

    /// Mean in nanoseconds.
    pub fn mean_nanos(&self) -> f64 {
        self.with_counters(|counters| counters.mean()).unwrap_or_default()
    }

    /// Standard deviation in nanoseconds.
    pub fn deviation_nanos(&self) -> f64 {
        self.with_counters(|counters| counters.stdev()).unwrap_or_default()
    }

    /// The occupied buckets: greatest value in nanoseconds, and count.
    pub fn buckets(&self) -> Vec<(u64, u64)> {
        let list = |counters: &Counters| {
            counters.iter_recorded().map(|step| (step.value_iterated_to(), step.count_at_value())).collect()
        };
        self.with_counters(list).unwrap_or_default()
    }

    /// The V2 DEFLATE form in base64, as HdrHistogram log files hold it.
    pub fn encode(&self) -> String {
        match &self.0 {
            Storage::Nothing => BASE64.encode(&write(Self::new().open())),
            Storage::Open(counters) => BASE64.encode(&write(counters)),
            Storage::Packed(bytes, _) => BASE64.encode(bytes),
        }
    }

    /// Reads what [`Histogram::encode`] wrote, from an untrusted file or peer.
    ///
    /// **Errors**: not base64, not a histogram, one with other bounds than ours, or one with more samples than any
    /// run has. **Cost**: memory in proportion to `text`, and to one histogram; never to a length that is only claimed.
    pub fn decode(text: &str) -> Result<Self, HistogramError> {
        let bytes = BASE64.decode(text.as_bytes())?;
        let read = wire::read(&bytes)?;
        // Kept packed: each is read once, and there may be one for each second of a day.
        Ok(if read.is_empty() { Self::new() } else { Self(Storage::Packed(bytes.into(), read.len())) })
    }
}

fn write(counters: &Counters) -> Vec<u8> {
    let mut bytes = Vec::new();
    V2DeflateSerializer::new().serialize(counters, &mut bytes).expect("writing to memory does not fail");
    bytes
}

fn unpack(bytes: &[u8]) -> Counters {
    wire::read(bytes).expect("packed by us, or checked when it was read")
}

/// One that was cleared is equal to one that never counted.
impl PartialEq for Histogram {
    fn eq(&self, other: &Self) -> bool {
        self.count() == other.count()
            && self
                .with_counters(|mine| other.with_counters(|theirs| mine == theirs))
                .flatten()
                .unwrap_or(true)
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
