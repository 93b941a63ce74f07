//! Values of a link as people write them: `114ms`, `1%`, `20mbit`, `100` packets or `64KiB`. In: text. Out: a value, or one more problem.

use std::time::Duration;

use handfast_text::{duration, size};

use crate::emulate::Bound;

/// The longest delay: more than to the moon and back, twenty times.
const MAX_DELAY: Duration = Duration::from_secs(60);
/// The smallest MTU that IPv4 allows to be of use (RFC 791: 68), and the largest packet.
const MTU: std::ops::RangeInclusive<u32> = 68..=65_535;

/// Reads values, and notes what is wrong.
pub(super) struct Reader<'a> {
    /// Name of a key in the place where it was written.
    pub(super) name: &'a dyn Fn(&str) -> String,
    /// Problems so far.
    pub(super) problems: &'a mut Vec<String>,
}

impl Reader<'_> {
    fn wrong(&mut self, key: &str, what: &str) {
        let name = (self.name)(key);
        self.problems.push(format!("{name}: {what}"));
    }

    /// A time; zero when none was given.
    pub(super) fn duration(&mut self, key: &str, text: Option<&str>) -> Duration {
        let Some(text) = text else { return Duration::ZERO };
        match duration::parse(text) {
            Ok(duration) if duration <= MAX_DELAY => return duration,
            Ok(_) => self.wrong(key, &format!("`{text}` is longer than a minute")),
            Err(error) => self.wrong(key, &error.to_string()),
        }
        Duration::ZERO
    }

    /// A share: `1%`, `0.01`.
    pub(super) fn share(&mut self, key: &str, text: Option<&str>) -> f64 {
        let Some(text) = text else { return 0.0 };
        let (number, whole) = text.strip_suffix('%').map_or((text, 1.0), |number| (number, 100.0));
        match number.trim().parse::<f64>() {
            Ok(number) if (0.0..=whole).contains(&number) => number / whole,
            _ => {
                self.wrong(key, &format!("invalid share `{text}`, expected `1%` or `0.01`"));
                0.0
            }
        }
    }

    /// Bits a second: `20mbit`, `512kbit`, `1gbit`.
    pub(super) fn rate(&mut self, key: &str, text: Option<&str>) -> Option<u64> {
        let text = text?;
        let lower = text.to_lowercase();
        let units = [("gbit", 1e9), ("mbit", 1e6), ("kbit", 1e3), ("bit", 1.0)];
        let read = units.into_iter().find_map(|(unit, factor)| {
            let number: f64 = lower.strip_suffix(unit)?.trim().parse().ok()?;
            let rate = number * factor;
            (1.0..=1e12).contains(&rate).then_some(rate as u64)
        });
        if read.is_none() {
            self.wrong(
                key,
                &format!("invalid rate `{text}`, expected bits a second such as `20mbit` or `512kbit`"),
            );
        }
        read
    }

    /// Reads the bound of a queue: `100` packets or `64KiB`.
    pub(super) fn queue(&mut self, key: &str, text: Option<&str>) -> Bound {
        let usual = Bound::Packets(100);
        let Some(text) = text else { return usual };
        if let Ok(packets) = text.parse() {
            return Bound::Packets(packets);
        }
        size::parse(text, size::Spelling::Full).map_or_else(
            |_| {
                self.wrong(
                    key,
                    &format!(
                        "invalid queue `{text}`, expected packets such as `100` or bytes such as `64KiB`"
                    ),
                );
                usual
            },
            Bound::Bytes,
        )
    }

    /// The largest packet.
    pub(super) fn mtu(&mut self, key: &str, text: Option<&str>) -> Option<u32> {
        let text = text?;
        let read = text.parse().ok().filter(|mtu| MTU.contains(mtu));
        if read.is_none() {
            let (least, most) = (MTU.start(), MTU.end());
            self.wrong(key, &format!("invalid MTU `{text}`, expected bytes from {least} to {most}"));
        }
        read
    }
}
