//! Think time: the pause of a client between the end of a transaction and its next start.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::seconds;

/// Pauses of the closed model, evenly distributed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Think {
    /// The shortest.
    #[serde(with = "seconds")]
    pub least: Duration,
    /// The longest.
    #[serde(with = "seconds")]
    pub most: Duration,
}

impl Think {
    /// The pause at this share of the way from the shortest to the longest.
    pub fn at(&self, share: f64) -> Duration {
        self.least + self.most.saturating_sub(self.least).mul_f64(share)
    }

    /// `200 ms`, or `100 ms to 500 ms`.
    pub fn sentence(&self) -> String {
        let words = |time: Duration| crate::units::duration(time.as_nanos() as f64);
        match self.least == self.most {
            true => words(self.least),
            false => format!("{} to {}", words(self.least), words(self.most)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_are_between_the_shortest_and_the_longest() {
        let ms = Duration::from_millis;
        let think = Think { least: ms(100), most: ms(500) };
        assert_eq!([0.0, 0.5, 1.0].map(|share| think.at(share)), [ms(100), ms(300), ms(500)]);
        assert_eq!(think.sentence(), "100 ms to 500 ms");
        let always = Think { least: ms(200), most: ms(200) };
        assert_eq!((always.at(0.7), always.sentence().as_str()), (ms(200), "200 ms"));
    }
}
