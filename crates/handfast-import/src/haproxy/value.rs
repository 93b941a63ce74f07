//! Converts times, and texts with HAProxy's log format in them.

use std::time::Duration;

use crate::note::UnknownVariable;

/// Properties of the service that a text depends on.
#[derive(Clone, Copy, Debug)]
pub(super) struct ServiceFacts {
    pub(super) has_tls: bool,
    /// Its port, if it listens on one alone.
    pub(super) port: Option<u16>,
}

/// `500`, which is in milliseconds, `500ms`, `10s`, `1m`, `1h`, `1d`.
pub(super) fn time(text: &str) -> Option<Duration> {
    let digits = text.find(|sign: char| !sign.is_ascii_digit()).unwrap_or(text.len());
    let number: u64 = text[..digits].parse().ok()?;
    let milliseconds = match &text[digits..] {
        "us" => return Some(Duration::from_micros(number)),
        "" | "ms" => 1,
        "s" => 1_000,
        "m" => 60_000,
        "h" => 3_600_000,
        "d" => 86_400_000,
        _ => return None,
    };
    Some(Duration::from_millis(number.checked_mul(milliseconds)?))
}

/// As Handfast writes a time, within the bounds of its key. `None`: no limit.
pub(super) fn bounded(time: Duration, least: u64, most_seconds: u64) -> Option<String> {
    if time.is_zero() || time > Duration::from_secs(most_seconds) {
        return None;
    }
    let milliseconds = u64::try_from(time.as_millis()).unwrap_or(u64::MAX).max(least);
    Some(handfast_text::duration::written(Duration::from_millis(milliseconds)))
}

/// A converted text, and whether a part of it is not quite the same.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Text {
    pub(super) text: String,
    pub(super) remark: Option<&'static str>,
}

/// A text with `%[…]` and `%ci` as one with variables in braces. **Errors**: what Handfast does not have.
pub(super) fn template(text: &str, facts: ServiceFacts) -> Result<Text, UnknownVariable> {
    let mut converted = Text::default();
    let mut rest = text;
    while let Some(at) = rest.find(['%', '{', '}']) {
        converted.text.push_str(&rest[..at]);
        let sign = &rest[at..=at];
        rest = &rest[at + 1..];
        if sign != "%" {
            converted.text.push_str(&sign.repeat(2));
        } else if let Some(after) = rest.strip_prefix('%') {
            converted.text.push('%');
            rest = after;
        } else if let Some(inner) = rest.strip_prefix('[') {
            let end = closing(inner).ok_or_else(|| UnknownVariable(format!("%[{inner}")))?;
            let value = sample(&inner[..end], facts);
            let value = value.ok_or_else(|| UnknownVariable(format!("%[{}]", &inner[..end])))?;
            converted.text.push_str(&value.text);
            converted.remark = converted.remark.or(value.remark);
            rest = &inner[end + 1..];
        } else {
            let end = rest.find(|sign: char| !sign.is_ascii_alphabetic()).unwrap_or(rest.len());
            let value = match &rest[..end] {
                "ci" => "{client-address}",
                "HU" => "{target}",
                "HP" => "{path}",
                "ID" => "{request-id}",
                "sslv" => "{tls-version}",
                "" => {
                    let written = rest.split_inclusive(']').next().unwrap_or_default();
                    return Err(UnknownVariable(format!("%{written}")));
                }
                name => return Err(UnknownVariable(format!("%{name}"))),
            };
            converted.text.push_str(value);
            rest = &rest[end..];
        }
    }
    converted.text.push_str(rest);
    Ok(converted)
}

/// Returns the position of the bracket that closes `%[`.
fn closing(text: &str) -> Option<usize> {
    let mut depth = 0;
    for (at, sign) in text.char_indices() {
        match sign {
            '(' | '[' => depth += 1,
            ']' if depth == 0 => return Some(at),
            ')' | ']' => depth -= 1,
            _ => {}
        }
    }
    None
}

/// A sample of a request as a text with variables.
fn sample(text: &str, facts: ServiceFacts) -> Option<Text> {
    const PORT: &str = "it has no port, where the client's Host has one";
    let same = |text: &str| Some(Text { text: text.into(), remark: None });
    let parts = parts(text);
    let parts: Vec<&str> = parts.iter().map(String::as_str).collect();
    match parts[..] {
        ["src"] | ["fc_src"] => same("{client-address}"),
        ["ssl_fc_sni" | "ssl_fc_sni,lower"] => same("{server-name}"),
        ["hdr(host)" | "req.hdr(host)" | "hdr(Host)" | "req.hdr(Host)"]
        | ["hdr(host)" | "req.hdr(host)", "lower"] => {
            Some(Text { text: "{host}".into(), remark: Some(PORT) })
        }
        ["hdr(host)" | "req.hdr(host)", "field(1,:)" | "host_only", ..] if parts.len() == 2 => same("{host}"),
        ["path"] => same("{path}"),
        ["pathq" | "url" | "capture.req.uri"] => same("{target}"),
        ["unique-id"] => same("{request-id}"),
        ["ssl_fc_protocol"] => same("{tls-version}"),
        ["http_auth_user"] => same("{user}"),
        ["ssl_c_s_dn"] => Some(Text {
            text: "{client-subject}".into(),
            remark: Some("the parts of the name are separated by commas, not by slashes"),
        }),
        ["ssl_c_der", "base64"] => same("{client-certificate-der}"),
        ["dst_port"] => facts.port.map(|port| Text { text: port.to_string(), remark: None }),
        ["ssl_fc"] => same(if facts.has_tls { "1" } else { "0" }),
        ["ssl_fc", iif] => {
            let (yes, no) = iif.strip_prefix("iif(")?.strip_suffix(')')?.split_once(',')?;
            same(if facts.has_tls { yes } else { no })
        }
        [text] => {
            let text = text.strip_prefix("str(")?.strip_suffix(')')?;
            same(&text.replace('{', "{{").replace('}', "}}"))
        }
        _ => None,
    }
}

/// A fetch and its converters, split at commas outside of parentheses.
pub(super) fn parts(text: &str) -> Vec<String> {
    let (mut parts, mut depth) = (vec![String::new()], 0);
    for sign in text.chars() {
        match sign {
            '(' => depth += 1,
            ')' => depth -= 1,
            ',' if depth == 0 => {
                parts.push(String::new());
                continue;
            }
            _ => {}
        }
        if let Some(last) = parts.last_mut() {
            last.push(sign);
        }
    }
    parts
}
