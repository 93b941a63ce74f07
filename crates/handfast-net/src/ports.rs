//! Number of source ports, and the time for which one rests: the arithmetic of `ip_local_port_range` and TIME_WAIT.
//!
//! In: the kernel's settings as texts. Out: counts and times. Nothing is read here.

use std::time::Duration;

/// Time for which a pair of ends rests with the side that ended a connection first: `TCP_TIMEWAIT_LEN` of Linux;
/// RFC 9293 §3.6.1.
pub const TIME_WAIT: Duration = Duration::from_secs(60);
/// Time for which it rests where `tcp_tw_reuse` holds and `tcp_tw_reuse_delay` is unknown to the kernel.
const REUSED_AFTER: Duration = Duration::from_secs(1);

/// Ports of `low high` (`ip_local_port_range`) without those of `reserved` (`ip_local_reserved_ports`: `8080,9000-9100`);
/// `None` for what is no range.
pub fn usable(range: &str, reserved: &str) -> Option<u64> {
    let (low, high) = range_of(range)?;
    let whole = u64::from(high.checked_sub(low)?) + 1;
    let taken = |part: &str| {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let (first, last) =
            (first.trim().parse::<u16>().ok()?.max(low), last.trim().parse::<u16>().ok()?.min(high));
        Some(u64::from(last.checked_sub(first)?) + 1)
    };
    Some(whole.saturating_sub(reserved.split(',').filter_map(taken).sum()).max(1))
}

/// First and last port of `low high`.
pub fn range_of(range: &str) -> Option<(u16, u16)> {
    let mut ends = range.split_whitespace().map(str::parse::<u16>);
    Some((ends.next()?.ok()?, ends.next()?.ok()?))
}

/// The settings that decide whether a port can be taken again before [`TIME_WAIT`] is over; `None` for what is not known.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Reuse {
    /// `tcp_tw_reuse`: 0 never, 1 wherever time stamps are used, 2 on loopback only (the kernel's own choice since 4.19).
    pub tw_reuse: Option<u64>,
    /// `tcp_tw_reuse_delay`, in milliseconds.
    pub delay: Option<u64>,
    /// `tcp_timestamps`: without time stamps nothing is reused.
    pub timestamps: Option<u64>,
}

impl Reuse {
    /// After how long a port can be taken again for a new connection to the same destination; `None`: not before the end of
    /// [`TIME_WAIT`]. `near`: the destination is reached by loopback.
    pub fn after(self, near: bool) -> Option<Duration> {
        let reused = match self.tw_reuse {
            Some(1) => true,
            Some(2) => near,
            _ => false,
        };
        let delay = self.delay.map_or(REUSED_AFTER, |delay| Duration::from_millis(delay.max(1)));
        (reused && self.timestamps != Some(0)).then_some(delay)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reserved_ports_are_not_usable() {
        assert_eq!(usable("32768\t60999", ""), Some(28_232));
        assert_eq!(usable("32768 60999", "8080,40000,50000-50099"), Some(28_131));
        assert_eq!((usable("60999 32768", ""), usable("", "")), (None, None));
    }

    #[test]
    fn reuse_depends_on_where_to_and_on_time_stamps() {
        let reuse = |tw_reuse, delay, timestamps| Reuse { tw_reuse: Some(tw_reuse), delay, timestamps };
        let second = Some(Duration::from_secs(1));
        assert_eq!(reuse(1, None, Some(1)).after(false), second);
        assert_eq!(reuse(2, None, Some(1)).after(false), None);
        assert_eq!(reuse(2, Some(500), None).after(true), Some(Duration::from_millis(500)));
        assert_eq!(reuse(1, None, Some(0)).after(true), None);
        assert_eq!(reuse(0, None, Some(1)).after(true), None);
        assert_eq!(Reuse::default().after(true), None);
    }
}
