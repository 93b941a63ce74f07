//! Start times of transactions: on each connection after its last one, or at a rate that follows stages.
//!
//! In: a model and the duration of the run. Out: [`Rates`]: the rate at a moment, how many starts are due until then, and when
//! a start is due.

use std::time::Duration;

use serde::{Deserialize, Serialize};

/// Model of the load: the times at which transactions begin.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(from = "Written", into = "Written")]
pub enum Model {
    /// Each of the connections begins its next transaction when the last one ended.
    Closed,
    /// At a rate, whatever the target does; time counts from the intended start.
    Open {
        /// The rate over the run; at least one.
        stages: Vec<Stage>,
        /// Spacing of the starts.
        arrivals: Arrivals,
    },
}

/// A part of a run in which the rate changes evenly, or not at all.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Stage {
    /// Transactions a second at its start, over all workers.
    pub from: f64,
    /// … and at its end.
    pub to: f64,
    /// Its share of the run's duration, by the sum of all shares.
    pub share: f64,
}

/// Spacing of the arrivals.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Arrivals {
    /// At even distances.
    Fixed,
    /// Independently, as customers come (exponential distances).
    Poisson,
}

impl Arrivals {
    /// The word on the command line.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Fixed => "fixed",
            Self::Poisson => "poisson",
        }
    }
}

/// A model in a plan: a single stage is written as before there were several, so that older versions read it.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
enum Written {
    Closed,
    Open { rate: f64, arrivals: Arrivals },
    Ramp { from: f64, to: f64, arrivals: Arrivals },
    Stages { stages: Vec<Stage>, arrivals: Arrivals },
}

impl From<Model> for Written {
    fn from(model: Model) -> Self {
        match model {
            Model::Closed => Self::Closed,
            Model::Open { stages, arrivals } => match stages.as_slice() {
                [one] if one.is_even() => Self::Open { rate: one.from, arrivals },
                [one] => Self::Ramp { from: one.from, to: one.to, arrivals },
                _ => Self::Stages { stages, arrivals },
            },
        }
    }
}

impl From<Written> for Model {
    fn from(written: Written) -> Self {
        match written {
            Written::Closed => Self::Closed,
            Written::Open { rate, arrivals } => Self::open(rate, arrivals),
            Written::Ramp { from, to, arrivals } => Self::ramp(from, to, arrivals),
            Written::Stages { stages, arrivals } => Self::Open { stages, arrivals },
        }
    }
}

impl Stage {
    /// Returns true if the rate stays the same.
    pub fn is_even(&self) -> bool {
        self.from.to_bits() == self.to.to_bits()
    }
}

impl Model {
    /// One rate for the whole run.
    pub fn open(rate: f64, arrivals: Arrivals) -> Self {
        Self::ramp(rate, rate, arrivals)
    }

    /// A rate that changes evenly over the whole run.
    pub fn ramp(from: f64, to: f64, arrivals: Arrivals) -> Self {
        Self::Open { stages: vec![Stage { from, to, share: 1.0 }], arrivals }
    }

    /// The rates of a run of this duration; `None` in the closed model.
    pub fn rates(&self, duration: Duration) -> Option<Rates> {
        match self {
            Self::Closed => None,
            Self::Open { stages, .. } => Some(Rates::new(stages, duration.as_secs_f64())),
        }
    }

    /// The rate, if it is the same for the whole run.
    pub fn only_rate(&self) -> Option<f64> {
        match self {
            Self::Open { stages, .. } => match stages.as_slice() {
                [one] if one.is_even() => Some(one.from),
                _ => None,
            },
            Self::Closed => None,
        }
    }

    /// Spacing of the starts; `None` in the closed model.
    pub const fn arrivals(&self) -> Option<Arrivals> {
        match self {
            Self::Open { arrivals, .. } => Some(*arrivals),
            Self::Closed => None,
        }
    }
}

/// The rate of an open model over a run. Times are seconds from its start.
#[derive(Clone, Debug)]
pub struct Rates {
    pieces: Vec<Piece>,
    duration: f64,
}

/// A stage with its place in the run.
#[derive(Clone, Copy, Debug)]
pub struct Piece {
    /// Begin of the stage, in seconds since the start of the run.
    pub begin: f64,
    /// Duration of the stage, in seconds.
    pub length: f64,
    /// The rate at its start.
    pub from: f64,
    /// The rate at its end.
    pub to: f64,
    /// Starts that are due before it.
    before: f64,
}

impl Piece {
    /// The rate this long after its start.
    fn at(&self, seconds: f64) -> f64 {
        if self.length > 0.0 {
            (self.to - self.from).mul_add(seconds / self.length, self.from)
        } else {
            self.from
        }
    }

    /// Starts that are due in its first seconds: the area below the rate.
    fn due(&self, seconds: f64) -> f64 {
        f64::midpoint(self.from, self.at(seconds)) * seconds
    }

    /// Time at which this many of its starts are due: where `from t + (to − from) t² / 2 length` reaches them.
    fn when(&self, starts: f64) -> f64 {
        if starts <= 0.0 {
            return 0.0;
        }
        let bend = (self.to - self.from) / (2.0 * self.length);
        // Below zero by rounding alone: a falling rate reaches its last start at the end.
        let root = self.from.mul_add(self.from, 4.0 * bend * starts).max(0.0);
        // The form that does not subtract two nearly equal numbers when the rate hardly changes.
        (2.0 * starts / (self.from + root.sqrt())).min(self.length)
    }
}

impl Rates {
    fn new(stages: &[Stage], duration: f64) -> Self {
        let shares: f64 = stages.iter().map(|stage| stage.share).sum();
        let (mut begin, mut before) = (0.0, 0.0);
        let piece = |stage: &Stage| {
            let length = duration * stage.share / shares;
            let piece = Piece { begin, length, from: stage.from, to: stage.to, before };
            begin += length;
            before += piece.due(length);
            piece
        };
        Self { pieces: stages.iter().map(piece).collect(), duration }
    }

    /// The stages, in their order.
    pub fn pieces(&self) -> &[Piece] {
        &self.pieces
    }

    /// The greatest rate.
    pub fn peak(&self) -> f64 {
        self.pieces.iter().map(|piece| piece.from.max(piece.to)).fold(0.0, f64::max)
    }

    /// The rate at a moment; 0 outside the run.
    pub fn at(&self, seconds: f64) -> f64 {
        let within = (0.0..=self.duration).contains(&seconds);
        let piece = self.pieces.iter().rev().find(|piece| piece.begin <= seconds).filter(|_| within);
        piece.map_or(0.0, |piece| piece.at(seconds - piece.begin))
    }

    /// Starts that are due in the first seconds, as a fraction.
    pub fn due(&self, seconds: f64) -> f64 {
        let seconds = seconds.clamp(0.0, self.duration);
        let piece = self.pieces.iter().rev().find(|piece| piece.begin <= seconds);
        piece.map_or(0.0, |piece| piece.before + piece.due(seconds - piece.begin))
    }

    /// Starts of the whole run: at least one, since a run without any measures nothing.
    pub fn starts(&self) -> u64 {
        // A float beyond u64 becomes its greatest.
        (self.due(self.duration).round() as u64).max(1)
    }

    /// Time at which this many starts are due, a fraction too; the end of the run for more than there are.
    pub fn when(&self, starts: f64) -> f64 {
        let reaches = |piece: &&Piece| piece.before + piece.due(piece.length) > starts;
        let piece = self.pieces.iter().find(reaches);
        piece.map_or(self.duration, |piece| piece.begin + piece.when(starts - piece.before))
    }

    /// The most starts that are due within this many seconds at a stretch.
    pub fn most_within(&self, seconds: f64) -> f64 {
        /// Windows that are tried: the error is below what a run of a minute notices.
        const TRIED: u32 = 1000;
        let last = (self.duration - seconds).max(0.0);
        let window = |number: u32| last * f64::from(number) / f64::from(TRIED);
        let due = |begin: f64| self.due(begin + seconds) - self.due(begin);
        (0..=TRIED).map(window).map(due).fold(0.0, f64::max)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spike() -> Model {
        let stage = |from, to, share| Stage { from, to, share };
        let stages = vec![
            stage(0.0, 500.0, 30.0),
            stage(500.0, 500.0, 120.0),
            stage(500.0, 2000.0, 10.0),
            stage(0.0, 0.0, 10.0),
        ];
        Model::Open { stages, arrivals: Arrivals::Poisson }
    }

    fn rates() -> Rates {
        spike().rates(Duration::from_secs(170)).expect("an open model")
    }

    #[test]
    fn stages_have_their_rates_and_areas() {
        let rates = rates();
        for (seconds, rate) in
            [(0.0, 0.0), (15.0, 250.0), (30.0, 500.0), (149.0, 500.0), (155.0, 1250.0), (165.0, 0.0)]
        {
            assert!((rates.at(seconds) - rate).abs() < 1e-6, "{seconds}: {}", rates.at(seconds));
        }
        for (seconds, due) in
            [(0.0, 0.0), (15.0, 1_875.0), (30.0, 7_500.0), (150.0, 67_500.0), (160.0, 80_000.0)]
        {
            assert!((rates.due(seconds) - due).abs() < 1e-6, "{seconds}: {}", rates.due(seconds));
        }
        assert_eq!((rates.starts(), rates.peak()), (80_000, 2000.0));
        assert!(
            (rates.at(171.0), rates.at(-1.0)) == (0.0, 0.0) && (rates.due(999.0) - 80_000.0).abs() < 1e-6
        );
    }

    #[test]
    fn a_start_is_due_when_the_area_reaches_it() {
        let rates = rates();
        for starts in [0.0, 0.5, 1.0, 7_499.9, 7_500.0, 30_000.0, 67_500.0, 79_999.0] {
            let found = rates.due(rates.when(starts));
            assert!((found - starts).abs() < 1e-3, "{starts}: {found}");
        }
        assert!((rates.when(1e9) - 170.0).abs() < 1e-9);
        let falling = Model::ramp(100.0, 0.0, Arrivals::Fixed).rates(Duration::from_secs(10)).expect("open");
        assert!((falling.when(499.999_999) - 10.0).abs() < 0.01, "{}", falling.when(499.999_999));
    }

    #[test]
    fn the_busiest_stretch_is_found() {
        assert!((rates().most_within(10.0) - 12_500.0).abs() < 50.0, "{}", rates().most_within(10.0));
        assert!((rates().most_within(500.0) - 80_000.0).abs() < 1e-6);
    }

    #[test]
    fn one_stage_is_written_as_ever_and_several_with_their_shares() {
        let written = |model: &Model| serde_json::to_string(model).expect("text");
        let open = Model::open(5.0, Arrivals::Fixed);
        assert_eq!(written(&open), r#"{"open":{"rate":5.0,"arrivals":"fixed"}}"#);
        let ramp = Model::ramp(0.0, 5.0, Arrivals::Poisson);
        assert_eq!(written(&ramp), r#"{"ramp":{"from":0.0,"to":5.0,"arrivals":"poisson"}}"#);
        assert_eq!(written(&Model::Closed), r#""closed""#);
        assert!(
            written(&spike()).starts_with(r#"{"stages":{"stages":[{"from":0.0,"to":500.0,"share":30.0},"#)
        );
        for model in [open, ramp, Model::Closed, spike()] {
            assert_eq!(serde_json::from_str::<Model>(&written(&model)).expect("the same"), model);
        }
        assert!(serde_json::from_str::<Model>(r#"{"open":{"rate":5.0,"arrivals":"fixed","x":1}}"#).is_err());
    }
}
