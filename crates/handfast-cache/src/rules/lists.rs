//! Values of fields that are lists, and dates: text ↔ values.
//!
//! In: field values. Out: their elements, numbers of seconds. Nothing is refused: what cannot be read is `None`, and each rule defines the
//! consequence.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// The elements of a list, without blanks around them; a comma in a quoted string does not separate. Empty ones are left out.
pub(crate) fn elements(value: &[u8]) -> impl Iterator<Item = &[u8]> {
    let mut rest = Some(value);
    std::iter::from_fn(move || {
        loop {
            let value = rest?;
            let end = comma(value);
            rest = value.get(end + 1..);
            let element = value[..end].trim_ascii();
            if !element.is_empty() {
                return Some(element);
            }
        }
    })
}

/// Returns the position of the first comma outside of a quoted string, or the end.
fn comma(value: &[u8]) -> usize {
    let (mut is_quoted, mut is_escaped) = (false, false);
    for (at, byte) in value.iter().enumerate() {
        match byte {
            _ if is_escaped => is_escaped = false,
            b'\\' if is_quoted => is_escaped = true,
            b'"' => is_quoted = !is_quoted,
            b',' if !is_quoted => return at,
            _ => {}
        }
    }
    value.len()
}

/// Digits and nothing else. Too large numbers become 2³¹ (RFC 9111 §1.2.2).
pub(crate) fn seconds(text: &[u8]) -> Option<u64> {
    const MAX_SECONDS: u64 = 1 << 31;
    if text.is_empty() || !text.iter().all(u8::is_ascii_digit) {
        return None;
    }
    Some(text.iter().fold(0, |number: u64, digit| (number * 10 + u64::from(digit - b'0')).min(MAX_SECONDS)))
}

/// A date in one of the three forms of RFC 9110 §5.6.7, as seconds since 1970. As RFC 9111 §4.2 asks for, upper and lower case are the same
/// here. A wrong day of the week is ignored in the two forms that have three letters of it.
pub(crate) fn date(text: &[u8]) -> Option<u64> {
    const DAYS: [&str; 7] = ["Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun"];
    let parse = |text: &str| httpdate::parse_http_date(text).ok();
    let text = str::from_utf8(text).ok()?;
    let date = parse(text).or_else(|| {
        let text = usual_case(text);
        let on = |day: &&str| parse(&format!("{day}{}", text.get(3..)?));
        parse(&text).or_else(|| DAYS.iter().find_map(on))
    })?;
    Some(date.duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs()))
}

/// Words of a date as they are usually written: `Thu`, `Aug`, `GMT`.
fn usual_case(text: &str) -> String {
    let mut is_inside = false;
    let usual = text.chars().map(|letter| {
        let is_first = !std::mem::replace(&mut is_inside, letter.is_ascii_alphabetic());
        if is_first { letter.to_ascii_uppercase() } else { letter.to_ascii_lowercase() }
    });
    usual.collect::<String>().replace("Gmt", "GMT")
}

/// The date in the form that is written today.
pub(crate) fn date_text(seconds: u64) -> String {
    // The last second that the form can express is in the year 9999.
    let time = UNIX_EPOCH + Duration::from_secs(seconds.min(253_402_300_799));
    httpdate::fmt_http_date(time)
}

/// Milliseconds since 1970, as all times of this crate are.
pub fn unix_ms(time: SystemTime) -> u64 {
    time.duration_since(UNIX_EPOCH).map_or(0, |since| u64::try_from(since.as_millis()).unwrap_or(u64::MAX))
}
