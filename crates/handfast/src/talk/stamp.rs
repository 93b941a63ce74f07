//! The time in front of a line on standard error.
//!
//! In: the destination of standard error. Out: the whole UTC time for a file or a pipe; the time of day for a terminal;
//! nothing for systemd's journal, which stores a time for each line itself.

use std::fs::File;
use std::io::{self, IsTerminal};
use std::os::fd::AsFd;
use std::os::unix::fs::MetadataExt;
use std::time::SystemTime;

use handfast_text::calendar::Utc;

/// The format of the time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stamp {
    /// Not at all.
    Absent,
    /// `13:31:29Z `.
    OfDay,
    /// `2026-11-22T13:31:29.042Z `, as in the access log.
    Whole,
}

impl Stamp {
    /// The format for the destination of standard error.
    pub(crate) fn fitting() -> Self {
        let stream = std::env::var("JOURNAL_STREAM").ok();
        choose(io::stderr().is_terminal(), stream.as_deref(), own_stream().as_deref())
    }

    /// The time now, with a space behind it.
    pub(crate) fn now(self) -> String {
        self.at(SystemTime::now())
    }

    fn at(self, time: SystemTime) -> String {
        let time = Utc::of(time);
        match self {
            Self::Absent => String::new(),
            Self::OfDay => format!("{}Z ", time.time_of_day()),
            Self::Whole => format!("{time} "),
        }
    }
}

/// Child processes inherit the variable of a unit, so it counts only if it names the stream of standard error
/// (systemd.exec(5), `$JOURNAL_STREAM`).
fn choose(terminal: bool, journal: Option<&str>, own: Option<&str>) -> Stamp {
    match (terminal, journal.is_some() && journal == own) {
        (true, _) => Stamp::OfDay,
        (false, true) => Stamp::Absent,
        (false, false) => Stamp::Whole,
    }
}

/// Device and inode of standard error, as `$JOURNAL_STREAM` has them.
fn own_stream() -> Option<String> {
    let file = File::from(io::stderr().as_fd().try_clone_to_owned().ok()?);
    let metadata = file.metadata().ok()?;
    Some(format!("{}:{}", metadata.dev(), metadata.ino()))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn the_time_is_as_long_as_its_reader_needs() {
        let time = SystemTime::UNIX_EPOCH + Duration::from_millis(1_772_366_400_042);
        let written = [Stamp::Absent, Stamp::OfDay, Stamp::Whole].map(|stamp| stamp.at(time));
        assert_eq!(written, ["", "12:00:00Z ", "2026-03-01T12:00:00.042Z "]);
    }

    #[test]
    fn only_the_journal_itself_goes_without() {
        assert_eq!(choose(false, Some("8:77"), Some("8:77")), Stamp::Absent);
        assert_eq!(
            choose(false, Some("8:77"), Some("8:78")),
            Stamp::Whole,
            "inherited, and redirected since"
        );
        assert_eq!(choose(false, None, Some("8:77")), Stamp::Whole);
        assert_eq!(choose(false, None, None), Stamp::Whole);
        assert_eq!(choose(true, Some("8:77"), Some("8:77")), Stamp::OfDay);
    }
}
