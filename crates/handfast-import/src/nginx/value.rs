//! Converts texts with nginx's variables, times and sizes.

use std::time::Duration;

use super::scope::Scope;
use crate::note::UnknownVariable;

/// Properties of the server that a text depends on.
#[derive(Clone, Copy, Debug)]
pub(super) struct ServerFacts<'s> {
    /// Its first name.
    pub(super) server_name: &'s str,
    /// Its port, if it listens on one alone.
    pub(super) port: Option<u16>,
    /// Value of `$ssl_client_verify` in every request that is served; `None`: it depends on the client, or there is no TLS.
    pub(super) verified: Option<&'static str>,
}

/// A text with variables in braces. **Errors**: the variable that Handfast does not have.
pub(super) fn template(text: &str, facts: ServerFacts<'_>) -> Result<String, UnknownVariable> {
    let (mut converted, mut rest) = (String::new(), text);
    while let Some(at) = rest.find(['$', '{', '}']) {
        // With the question mark that Handfast's variable has too.
        let query = ["$is_args$args", "$is_args$query_string"]
            .iter()
            .find_map(|known| rest[at..].strip_prefix(known));
        if let Some(after) =
            query.filter(|after| !after.starts_with(|sign: char| sign.is_ascii_alphanumeric() || sign == '_'))
        {
            converted.push_str(&rest[..at]);
            converted.push_str("{query}");
            rest = after;
            continue;
        }
        converted.push_str(&rest[..at]);
        let sign = &rest[at..=at];
        rest = &rest[at + 1..];
        if sign != "$" {
            converted.push_str(&sign.repeat(2));
            continue;
        }
        let (name, after) = match rest.strip_prefix('{') {
            Some(inner) => inner.split_once('}').unwrap_or((inner, "")),
            None => rest.split_at(
                rest.find(|sign: char| !sign.is_ascii_alphanumeric() && sign != '_').unwrap_or(rest.len()),
            ),
        };
        converted.push_str(&variable(name, facts).ok_or_else(|| UnknownVariable(format!("${name}")))?);
        rest = after;
    }
    converted.push_str(rest);
    Ok(converted)
}

fn variable(name: &str, facts: ServerFacts<'_>) -> Option<String> {
    Some(match name {
        "host" => "{host}".into(),
        "remote_addr" | "proxy_protocol_addr" | "realip_remote_addr" => "{client-address}".into(),
        "ssl_client_escaped_cert" => "{client-certificate-pem}".into(),
        "ssl_client_s_dn" => "{client-subject}".into(),
        "ssl_client_verify" => facts.verified?.into(),
        "scheme" => "{scheme}".into(),
        "request_uri" => "{target}".into(),
        "request_id" => "{request-id}".into(),
        "ssl_protocol" => "{tls-version}".into(),
        "ssl_server_name" => "{server-name}".into(),
        "server_name" => facts.server_name.into(),
        "server_port" => facts.port?.to_string(),
        _ => return None,
    })
}

/// Returns the text of `proxy_pass`, in which variables that `set` gives a fixed text are that text.
pub(super) fn with_constants(text: &str, scope: &Scope<'_>) -> String {
    let mut sets: Vec<(String, &str)> =
        scope.every("set").map(|set| (set.argument(0).to_owned(), set.argument(1))).collect();
    // The longest name first: `$app_port` is not `$app`.
    sets.sort_by_key(|(name, _)| std::cmp::Reverse(name.len()));
    let of = |name: &String| sets.iter().filter(|(other, _)| other == name).count() == 1;
    let fixed = sets.iter().filter(|(name, value)| of(name) && !value.contains('$') && name.len() > 1);
    let text = fixed.fold(text.to_owned(), |text, (name, value)| text.replace(name.as_str(), value));
    // The target as the client sent it, which is what backends receive without a path, too.
    text.strip_suffix("$request_uri").map(ToOwned::to_owned).unwrap_or(text)
}

/// `60`, `60s`, `1m`, `1h30m`, `500ms`.
pub(super) fn time(text: &str) -> Option<Duration> {
    let (mut total, mut rest) = (Duration::ZERO, text);
    while !rest.is_empty() {
        let digits = rest.find(|sign: char| !sign.is_ascii_digit()).unwrap_or(rest.len());
        let number: u32 = rest[..digits].parse().ok()?;
        let unit = rest[digits..].find(|sign: char| sign.is_ascii_digit()).unwrap_or(rest.len() - digits);
        let milliseconds = match &rest[digits..digits + unit] {
            "ms" => 1,
            "" | "s" => 1_000,
            "m" => 60_000,
            "h" => 3_600_000,
            "d" => 86_400_000,
            _ => return None,
        };
        total += Duration::from_millis(u64::from(number) * milliseconds);
        rest = &rest[digits + unit..];
    }
    (!text.is_empty()).then_some(total)
}

/// A size in bytes: `1024`, `8k`, `1m`, `1g`.
pub(super) fn size(text: &str) -> Option<u64> {
    let text = text.to_ascii_lowercase();
    let digits = text.find(|sign: char| !sign.is_ascii_digit()).unwrap_or(text.len());
    let unit = match &text[digits..] {
        "" => 1,
        "k" => 1 << 10,
        "m" => 1 << 20,
        "g" => 1 << 30,
        _ => return None,
    };
    text[..digits].parse::<u64>().ok()?.checked_mul(unit)
}

/// As Handfast writes sizes.
pub(super) fn written_size(bytes: u64) -> String {
    for (unit, name) in [(1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB")] {
        if bytes.is_multiple_of(unit) {
            return format!("{}{name}", bytes / unit);
        }
    }
    format!("{bytes}B")
}
