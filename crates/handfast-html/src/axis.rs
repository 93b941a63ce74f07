//! The axes of plots: where marks are, and what is written there.
//!
//! In: a range. Out: places as shares of the axis (0 to 1) with their text.

/// A place along an axis, and what is written there.
pub type Tick = (f64, String);

/// Four to eight even ticks from 0 to `most`, and where `most` lies when the axis ends at the last of them.
pub fn even(most: f64, name: impl Fn(f64) -> String) -> (Vec<Tick>, f64) {
    let most = if most.is_finite() && most > 0.0 { most } else { 1.0 };
    let rough = most / 4.0;
    let power = 10_f64.powf(rough.log10().floor());
    let step = [1.0, 2.0, 2.5, 5.0, 10.0]
        .iter()
        .map(|s| s * power)
        .find(|step| *step >= rough * 0.999)
        .unwrap_or(power);
    let steps = (most / step).ceil().max(1.0);
    let ticks = (0..=steps as u32).map(|place| (f64::from(place) / steps, name(f64::from(place) * step)));
    (ticks.collect(), step * steps)
}

/// A logarithmic axis of nanoseconds.
#[derive(Clone, Copy)]
pub struct Log {
    low: f64,
    high: f64,
}

impl Log {
    /// From below `low` to above `high`, in whole halves of a decade.
    pub fn around(low: u64, high: u64) -> Self {
        let low = ((low.max(100) as f64).log10() * 4.0).floor() / 4.0;
        let high = ((high.max(100) as f64).log10() * 4.0 + 0.001).ceil() / 4.0;
        Self { low, high: high.max(low + 1.0) }
    }

    /// Returns the position of a value on the axis, 0 to 1.
    pub fn part(self, nanos: u64) -> f64 {
        (((nanos.max(1) as f64).log10() - self.low) / (self.high - self.low)).clamp(0.0, 1.0)
    }

    /// The value at a place.
    #[cfg(test)]
    fn value(self, part: f64) -> f64 {
        10_f64.powf(self.low + part * (self.high - self.low))
    }

    /// Every power of ten; with twos and fives between when there are few.
    pub fn ticks(self) -> Vec<Tick> {
        let between: &[f64] = if self.high - self.low < 2.6 { &[1.0, 2.0, 5.0] } else { &[1.0] };
        let mut ticks = Vec::new();
        for power in self.low.floor() as i32..=self.high.ceil() as i32 {
            for factor in between {
                let value = factor * 10_f64.powi(power);
                let part = (value.log10() - self.low) / (self.high - self.low);
                if (-0.001..=1.001).contains(&part) {
                    ticks.push((part.clamp(0.0, 1.0), round(value)));
                }
            }
        }
        ticks
    }
}

/// A round duration without useless digits: `10 ms`.
fn round(nanos: f64) -> String {
    short(&handfast_text::units::duration(nanos))
}

/// A round rate or count without them: `50`, `2.5`, `4,000`.
pub fn plain_rate(value: f64) -> String {
    short(handfast_text::units::rate(value).trim_end_matches("/s")).trim_end().to_owned()
}

fn short(text: &str) -> String {
    let (number, unit) = text.split_once(' ').unwrap_or((text, ""));
    let number =
        if number.contains('.') { number.trim_end_matches('0').trim_end_matches('.') } else { number };
    format!("{number} {unit}")
}

/// Seconds since the start, with at most eight ticks: `30 s`, from two minutes on `2:30`, from two hours on `2:30:00`.
pub fn time(seconds: f64) -> Vec<Tick> {
    const STEPS: [u32; 16] =
        [1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1_800, 3_600, 7_200, 21_600, 86_400];
    let seconds = seconds.max(1.0);
    let step = STEPS.into_iter().find(|step| seconds / f64::from(*step) <= 8.0).unwrap_or(86_400 * 7);
    let name = |at: u32| match seconds {
        total if total < 120.0 => format!("{at} s"),
        total if total < 7_200.0 => format!("{}:{:02}", at / 60, at % 60),
        _ => format!("{}:{:02}:{:02}", at / 3_600, at / 60 % 60, at % 60),
    };
    (0..)
        .map(|n| n * step)
        .take_while(|at| f64::from(*at) <= seconds)
        .take(1_000)
        .map(|at| (f64::from(at) / seconds, name(at)))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn even_axes_end_at_a_round_number_above() {
        for most in [0.3, 1.0, 7.0, 99.0, 4_999.0, 1e7] {
            let (ticks, end) = even(most, |value| value.to_string());
            assert!(end >= most * 0.999 && end <= most * 1.7, "{most}: {end}");
            assert!((4..=7).contains(&ticks.len()), "{most}: {}", ticks.len());
            assert_eq!(ticks.last().unwrap().0, 1.0);
        }
        assert_eq!(even(f64::NAN, |value| value.to_string()).1, 1.0);
    }

    #[test]
    fn logarithmic_axes_hold_their_ends() {
        for (low, high) in [(0, 0), (61_000, 181_000_000), (100, 3_600_000_000_000), (5_000, 5_001)] {
            let axis = Log::around(low, high);
            assert!(axis.value(0.0) <= low.max(100) as f64 * 1.001 && axis.value(1.0) >= high as f64 * 0.999);
            assert!((2..=12).contains(&axis.ticks().len()), "{low} {high}: {:?}", axis.ticks());
        }
        assert_eq!(Log::around(1_000, 1_000_000).ticks()[1].1, "10 µs");
        assert_eq!([2.5, 4_000.0, 50.0].map(plain_rate), ["2.5", "4,000", "50"]);
    }

    #[test]
    fn time_has_few_ticks_however_long() {
        for seconds in [0.0, 1.0, 10.0, 60.0, 3_600.0, 86_400.0, 1e6] {
            assert!((1..=9).contains(&time(seconds).len()), "{seconds}: {}", time(seconds).len());
        }
        assert_eq!(time(300.0)[1].1, "1:00");
    }
}
