//! Ends of connections, and failures of attempts: counts by step, side and cause.

use std::collections::BTreeMap;
use std::ops::Deref;

use serde::ser::SerializeStruct;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::counters::AddTo;
use super::table::Table;
use super::transfer::{Counts, Transfer};
use crate::cause::Cause;
use crate::cell::Cell;
use crate::reason::CloseReason;
use crate::steps::{Side, Step};
use crate::words::Word;

/// The word for what is counted together, because its table was full or another version sent a word that this one does not know.
pub(super) const OTHER: &str = "other";

/// Key under which a worker counts an end; the cause is [`Cause::counted`].
pub(super) type EndKey = (Step, Side, Cause);

/// Key under which ends are counted together; `None` is a part that was counted together with others.
type EndParts = (Option<Step>, Option<Side>, Option<Cause>);

/// A way in which connections ended, and how many did. `None` is one that is counted together with others.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct End {
    /// The step they were in.
    pub step: Option<Step>,
    /// The side that made them end.
    pub side: Option<Side>,
    /// Their cause; [`Cause::counted`].
    pub cause: Option<Cause>,
    /// Number of these ends.
    pub count: u64,
}

impl End {
    /// Its step, side and cause: ends that agree on them are counted together.
    pub fn key(&self) -> EndParts {
        (self.step, self.side, self.cause)
    }

    /// The words of step, side and cause; `other` where there is none.
    pub fn words(&self) -> [&'static str; 3] {
        [
            self.step.map_or(OTHER, Step::name),
            self.side.map_or(OTHER, Side::name),
            self.cause.map_or(OTHER, Cause::name),
        ]
    }

    /// Describes the event: `while carrying bytes, the client reset the connection`.
    pub fn sentence(&self) -> String {
        match self.key() {
            (Some(step), Some(side), Some(cause)) => CloseReason::new(step, side, cause).sentence(),
            _ => "ended in a way too rare to be counted apart".into(),
        }
    }

    /// Returns true if these connections failed: [`Cause::is_failure`].
    pub fn is_failure(&self) -> bool {
        self.cause.is_none_or(Cause::is_failure)
    }

    fn count_of(ends: &mut Vec<Self>, key: EndParts) -> &mut u64 {
        let place = ends.iter().position(|end| end.key() == key).unwrap_or_else(|| {
            let (step, side, cause) = key;
            ends.push(Self { step, side, cause, count: 0 });
            ends.len() - 1
        });
        &mut ends[place].count
    }
}

/// With its sentence.
impl Serialize for End {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let [step, side, cause] = self.words();
        let mut end = serializer.serialize_struct("End", 6)?;
        end.serialize_field("step", step)?;
        end.serialize_field("side", side)?;
        end.serialize_field("cause", cause)?;
        end.serialize_field("count", &self.count)?;
        end.serialize_field("failed", &self.is_failure())?;
        end.serialize_field("sentence", &self.sentence())?;
        end.end()
    }
}

/// A word that this version does not know is counted together with others.
impl<'de> Deserialize<'de> for End {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        struct Words {
            step: Word,
            side: Word,
            cause: Word,
            count: u64,
        }
        let Words { step, side, cause, count } = Words::deserialize(deserializer)?;
        Ok(Self { step: Step::named(&step), side: Side::named(&side), cause: Cause::named(&cause), count })
    }
}

impl<const N: usize> AddTo<Vec<End>> for Table<EndKey, Cell, N> {
    fn add_to(&self, sum: &mut Vec<End>) {
        for (key, cell) in self.entries() {
            let key = (key.map(|key| key.0), key.map(|key| key.1), key.map(|key| key.2));
            *End::count_of(sum, key) += cell.value();
        }
    }
}

/// Counts by the word of a cause.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct CauseCounts(pub BTreeMap<Word, u64>);

impl Deref for CauseCounts {
    type Target = BTreeMap<Word, u64>;

    fn deref(&self) -> &Self::Target {
        &self.0
    }
}

impl CauseCounts {
    fn count_of(&mut self, cause: Option<Cause>) -> &mut u64 {
        self.0.entry(cause.map_or(OTHER, Cause::name).into()).or_default()
    }
}

impl<const N: usize> AddTo<CauseCounts> for Table<Cause, Cell, N> {
    fn add_to(&self, sum: &mut CauseCounts) {
        for (cause, cell) in self.entries() {
            *sum.count_of(cause) += cell.value();
        }
    }
}

impl Transfer for CauseCounts {
    fn write(&self, words: &[&str], to: &mut Counts) {
        (**self).write(words, to);
    }

    fn place(&mut self, words: &[&str]) -> Option<&mut u64> {
        let [cause] = words else { return None };
        Some(self.count_of(Cause::named(cause)))
    }
}

impl Transfer for Vec<End> {
    fn write(&self, words: &[&str], to: &mut Counts) {
        self.iter().for_each(|end| to.add(&[words, &end.words()].concat(), end.count));
    }

    fn place(&mut self, words: &[&str]) -> Option<&mut u64> {
        let [step, side, cause] = words else { return None };
        Some(End::count_of(self, (Step::named(step), Side::named(side), Cause::named(cause))))
    }
}

#[cfg(test)]
mod tests {
    use handfast_net::fault::Cause as SocketCause;

    use super::*;

    #[test]
    fn an_end_is_a_sentence() {
        let reset = Some(Cause::Socket(SocketCause::Reset));
        let end = End { step: Some(Step::Relay), side: Some(Side::Client), cause: reset, count: 1 };
        assert_eq!(end.sentence(), "while carrying bytes, the client reset the connection");
        let other = End { step: None, side: None, cause: None, count: 1 };
        assert_eq!(other.sentence(), "ended in a way too rare to be counted apart");
    }
}
