//! Numbers with units that fit, for people.
//!
//! In: nanoseconds, counts, rates, shares, bytes. Out: `2.31 ms`, `48,120`, `4,812/s`, `61 %`, `188 MiB`.

use std::time::Duration;

/// Nanoseconds with three digits in the unit that fits: `812 ns`, `41.2 µs`, `3.41 ms`, `1.02 s`; from two minutes on
/// `2.00 min`, from two hours on `2.00 h`.
pub fn duration(nanos: f64) -> String {
    // From which size on, the size of the unit, its name.
    const UNITS: [(f64, f64, &str); 6] = [
        (7.2e12, 3.6e12, "h"),
        (120e9, 60e9, "min"),
        (1e9, 1e9, "s"),
        (1e6, 1e6, "ms"),
        (1e3, 1e3, "µs"),
        (1.0, 1.0, "ns"),
    ];
    if !nanos.is_finite() || nanos < 0.5 {
        return "0 s".into();
    }
    // 999.6 µs has three digits as 1.00 ms only.
    let fits = |(from, ..): &&(f64, f64, &str)| nanos >= from * 0.9995;
    let (_, size, name) = UNITS.iter().find(fits).unwrap_or(&UNITS[5]);
    if *size == 1.0 { format!("{nanos:.0} ns") } else { format!("{} {name}", three_digits(nanos / size)) }
}

/// The larger two units of a long time: `3 days 4 h`, `12 min`, `41 s`.
pub fn long(duration: Duration) -> String {
    let seconds = duration.as_secs();
    let (days, hours, minutes) = (seconds / 86_400, seconds / 3_600 % 24, seconds / 60 % 60);
    match (days, hours, minutes) {
        (0, 0, 0) => format!("{seconds} s"),
        (0, 0, minutes) => format!("{minutes} min"),
        (0, hours, 0) => format!("{hours} h"),
        (0, hours, minutes) => format!("{hours} h {minutes} min"),
        (1..10, 1.., _) => format!("{} {hours} h", counted(days, "day")),
        _ => counted(days, "day"),
    }
}

/// Nanoseconds of a counter, as [`duration`].
pub fn nanos(nanos: u64) -> String {
    duration(nanos as f64)
}

/// Three digits, as many as there are before the point: `3.41`, `41.2`, `812`, `1,234`.
fn three_digits(value: f64) -> String {
    match value.abs() {
        size if size < 9.995 => format!("{value:.2}"),
        size if size < 99.95 => format!("{value:.1}"),
        _ => count(value.max(0.0).round() as u64),
    }
}

/// A count with its digits in groups: `48,120`.
pub fn count(count: u64) -> String {
    let digits = count.to_string();
    let mut grouped = String::new();
    for (place, digit) in digits.chars().enumerate() {
        if place > 0 && (digits.len() - place).is_multiple_of(3) {
            grouped.push(',');
        }
        grouped.push(digit);
    }
    grouped
}

/// A count with its noun: `1 line`, `12 lines`, `2 addresses`.
pub fn counted(number: u64, one: &str) -> String {
    let plural = match (number, one.ends_with('s')) {
        (1, _) => "",
        (_, true) => "es",
        (_, false) => "s",
    };
    format!("{} {one}{plural}", count(number))
}

/// A rate per second: `4,812/s`, `0.50/s`.
pub fn rate(per_second: f64) -> String {
    if !per_second.is_finite() || per_second == 0.0 {
        return "0/s".into();
    }
    if per_second > 0.0 && per_second < 0.005 {
        return "under 0.01/s".into();
    }
    format!("{}/s", three_digits(per_second))
}

/// A share from 0 to 1 in per cent: `61 %`, `4.2 %`, `0.031 %`; never rounded to 0 % or 100 %.
pub fn share(share: f64) -> String {
    let percent = share * 100.0;
    match percent {
        p if !p.is_finite() || p == 0.0 => "0 %".into(),
        p if p.abs() < 0.01 => "under 0.01 %".into(),
        p if p.abs() < 1.0 => format!("{p:.2} %"),
        p if p.abs() < 9.95 => format!("{p:.1} %"),
        p if p > 99.0 && p < 99.995 => format!("{p:.2} %"),
        p if (99.995..100.0).contains(&p) => "over 99.99 %".into(),
        p => format!("{p:.0} %"),
    }
}

/// A part of a whole as a [`share`]: 0 % of an empty whole, and at most 100 %, since a part may be counted slightly later than its
/// whole.
pub fn share_of(part: u64, whole: u64) -> String {
    share(part.min(whole) as f64 / whole.max(1) as f64)
}

/// Bytes in a binary unit where that is exact: `4 KiB`, `1,000 bytes`.
pub fn exact_bytes(bytes: u64) -> String {
    match crate::size::in_a_whole_unit(bytes) {
        (_, "B") => counted(bytes, "byte"),
        (number, unit) => format!("{} {unit}", count(number)),
    }
}

/// Bytes in the binary unit that fits: `188 MiB`.
pub fn bytes(bytes: u64) -> String {
    const NAMES: [&str; 5] = ["KiB", "MiB", "GiB", "TiB", "PiB"];
    let mut size = bytes as f64;
    if bytes < 1_024 {
        return format!("{} B", count(bytes));
    }
    let mut name = NAMES[0];
    for next in NAMES {
        name = next;
        size /= 1_024.0;
        if size < 1_023.5 {
            break;
        }
    }
    format!("{} {name}", three_digits(size))
}

/// Text from a file or a peer on one line of a terminal: control characters, and those that turn the direction of writing,
/// become visible escapes.
pub fn plain(text: &str) -> String {
    let mut clean = String::with_capacity(text.len());
    for character in text.chars() {
        if character.is_control()
            || matches!(character, '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
        {
            clean.extend(character.escape_default());
        } else {
            clean.push(character);
        }
    }
    clean
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_have_three_digits_and_the_unit_that_fits() {
        let cases = [
            (0.0, "0 s"),
            (812.0, "812 ns"),
            (999.6, "1.00 µs"),
            (41_234.0, "41.2 µs"),
            (999_600.0, "1.00 ms"),
        ];
        for (nanos, text) in cases {
            assert_eq!(duration(nanos), text, "{nanos}");
        }
        let cases =
            [(3_412_345.0, "3.41 ms"), (99_960_000.0, "100 ms"), (1.02e9, "1.02 s"), (119e9, "119 s")];
        for (nanos, text) in cases {
            assert_eq!(duration(nanos), text, "{nanos}");
        }
        let cases = [(120e9, "2.00 min"), (300e9, "5.00 min"), (7_100e9, "118 min"), (9_000e9, "2.50 h")];
        for (nanos, text) in cases {
            assert_eq!(duration(nanos), text, "{nanos}");
        }
        assert_eq!(duration(f64::NAN), "0 s");
    }

    #[test]
    fn counts_rates_and_bytes() {
        assert_eq!(
            [count(0), count(999), count(1_000), count(1_234_567)],
            ["0", "999", "1,000", "1,234,567"]
        );
        assert_eq!(
            [rate(0.0), rate(0.004), rate(0.5), rate(4_812.4), rate(f64::INFINITY)],
            ["0/s", "under 0.01/s", "0.50/s", "4,812/s", "0/s"]
        );
        assert_eq!(
            [bytes(0), bytes(1_023), bytes(4_096), bytes(1_048_575)],
            ["0 B", "1,023 B", "4.00 KiB", "1.00 MiB"]
        );
        assert_eq!(bytes(u64::MAX), "16,384 PiB");
    }

    #[test]
    fn counts_have_their_nouns_and_exact_sizes_stay_exact() {
        assert_eq!([counted(1, "line"), counted(0, "line")], ["1 line", "0 lines"]);
        assert_eq!([counted(1, "second"), counted(2_000, "address")], ["1 second", "2,000 addresses"]);
        assert_eq!(
            [4096, 1000, 1 << 30, 0, 1, 5 << 40].map(exact_bytes),
            ["4 KiB", "1,000 bytes", "1 GiB", "0 bytes", "1 byte", "5,120 GiB"]
        );
    }

    #[test]
    fn long_times_have_two_units_at_most() {
        let cases = [
            (0, "0 s"),
            (59, "59 s"),
            (60, "1 min"),
            (3_599, "59 min"),
            (3_600, "1 h"),
            (3_660, "1 h 1 min"),
            (86_400, "1 day"),
            (90_000, "1 day 1 h"),
            (10 * 86_400 - 1, "9 days 23 h"),
            (10 * 86_400 + 3_600, "10 days"),
            (1_500 * 86_400, "1,500 days"),
        ];
        for (seconds, text) in cases {
            assert_eq!(long(Duration::from_secs(seconds)), text, "{seconds}");
        }
    }

    #[test]
    fn a_share_is_neither_nothing_nor_everything_unless_it_is() {
        assert_eq!(
            [share(0.0), share(1e-7), share(0.0004), share(0.042)],
            ["0 %", "under 0.01 %", "0.04 %", "4.2 %"]
        );
        assert_eq!(
            [share(0.61), share(0.9985), share(0.999_999), share(1.0)],
            ["61 %", "99.85 %", "over 99.99 %", "100 %"]
        );
        assert_eq!(
            [
                share_of(0, 10),
                share_of(1, 100_000),
                share_of(99_999, 100_000),
                share_of(6, 5),
                share_of(0, 0)
            ],
            ["0 %", "under 0.01 %", "over 99.99 %", "100 %", "0 %"]
        );
    }

    #[test]
    fn a_peers_text_cannot_steer_the_terminal() {
        assert_eq!(plain("a\u{1b}[31mb\n\u{202e}c é"), "a\\u{1b}[31mb\\n\\u{202e}c é");
    }
}
