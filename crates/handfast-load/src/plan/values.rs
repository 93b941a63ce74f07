//! Values of a plan as people write them: sizes, rates, times, shares, addresses, targets.
//!
//! In: the text as typed. Out: the value, or an error to follow the option's name. Pure.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::time::Duration;

use handfast_text::size::Spelling;

use super::{Stage, Target, Think};

mod error;

pub use error::ValueError;

/// Most source addresses of one run: a /20. Each is stored separately, and no machine can use more than this number times
/// 28,000 ports.
pub const SOURCES: usize = 4096;
/// Longest time.
const MAX_DURATION: Duration = Duration::from_secs(7 * 86_400);
/// Most stages of a run.
const STAGES: usize = 1000;
/// Highest rate, in transactions a second: far above the limit of TLS handshakes.
const FASTEST: f64 = 10_000_000.0;

/// A number of bytes: `4096`, `4KiB`, `1m`.
///
/// **Errors**: it is no number with a unit.
pub fn size(text: &str) -> Result<u64, ValueError> {
    handfast_text::size::parse(text, Spelling::Short).map_err(ValueError::Size)
}

/// A time above zero: `10s`, `500ms`, `1m30s`, `1.5s`.
///
/// **Errors**: it is no time, 0, or longer than a week.
pub fn time(text: &str) -> Result<Duration, ValueError> {
    match handfast_text::duration::parse(text) {
        Ok(Duration::ZERO) => Err(ValueError::ZeroTime(text.to_owned())),
        Ok(time) if time <= MAX_DURATION => Ok(time),
        Ok(_) => Err(ValueError::TooLong(text.to_owned())),
        Err(error) => Err(ValueError::Time(error)),
    }
}

/// A pause, or one between two: `200ms`, `100ms..500ms`; the shortest may be 0.
///
/// **Errors**: one of them is no time; the longer one is first.
pub fn think(text: &str) -> Result<Think, ValueError> {
    let (least, most) = text.split_once("..").unwrap_or((text, text));
    let most = time(most)?;
    let least = match handfast_text::duration::parse(least) {
        Ok(Duration::ZERO) => Duration::ZERO,
        _ => time(least)?,
    };
    if least > most { Err(ValueError::ThinkOrder(text.to_owned())) } else { Ok(Think { least, most }) }
}

/// Transactions a second: `500`, `2.5k`; above 0.
///
/// **Errors**: it is no number, 0, or above ten million.
pub fn rate(text: &str) -> Result<f64, ValueError> {
    let rate = rate_or_none(text)?;
    if rate > 0.0 { Ok(rate) } else { Err(ValueError::ZeroRate(text.to_owned())) }
}

/// A rate that may be 0.
fn rate_or_none(text: &str) -> Result<f64, ValueError> {
    let wrong = || ValueError::Rate(text.to_owned());
    let plain = text.strip_suffix("/s").unwrap_or(text);
    let (number, factor) = match plain.strip_suffix(['k', 'K']) {
        Some(number) => (number, 1000.0),
        None => (plain, 1.0),
    };
    let digits = |c: char| c.is_ascii_digit() || c == '.';
    let rate = number.parse::<f64>().ok().filter(|_| number.chars().all(digits)).ok_or_else(wrong)? * factor;
    if rate > FASTEST {
        return Err(ValueError::TooFast(text.to_owned()));
    }
    Ok(rate)
}

/// The rates of a run, without the spacing of starts.
#[derive(Clone, Debug, PartialEq)]
pub struct RateStages {
    /// The rates, with the share of the run that each has.
    pub stages: Vec<Stage>,
    /// The length of all stages together, if each has a length.
    pub length: Option<Duration>,
}

/// A rate, or `FROM..TO`, for the whole run; or stages with their lengths: `0..500@30s,500@2m`.
///
/// **Errors**: a stage has no rate or no length; there are too many; nothing would start.
pub fn rates(text: &str) -> Result<RateStages, ValueError> {
    let written: Vec<(f64, f64, Option<Duration>)> = text.split(',').map(stage).collect::<Result<_, _>>()?;
    if written.iter().all(|(from, to, _)| from.max(*to) <= 0.0) {
        return Err(ValueError::ZeroRates(text.to_owned()));
    }
    if let [(from, to, None)] = written.as_slice() {
        let whole = Stage { from: *from, to: *to, share: 1.0 };
        return Ok(RateStages { stages: vec![whole], length: None });
    }
    if written.len() > STAGES {
        return Err(ValueError::TooManyStages(written.len()));
    }
    let with_length = |(from, to, length): &(f64, f64, Option<Duration>)| {
        length.map(|length| Stage { from: *from, to: *to, share: length.as_secs_f64() })
    };
    let stages: Option<Vec<Stage>> = written.iter().map(with_length).collect();
    let stages = stages.ok_or_else(|| ValueError::StageWithoutLength(text.to_owned()))?;
    let length = written.iter().filter_map(|(.., length)| *length).sum();
    if length > MAX_DURATION {
        return Err(ValueError::TooLong(text.to_owned()));
    }
    Ok(RateStages { stages, length: Some(length) })
}

/// `500`, `0..500`, either with `@30s` behind it.
fn stage(text: &str) -> Result<(f64, f64, Option<Duration>), ValueError> {
    let (rates, length) = match text.trim().split_once('@') {
        Some((rates, length)) => (rates, Some(time(length)?)),
        None => (text.trim(), None),
    };
    let (from, to) = rates.split_once("..").unwrap_or((rates, rates));
    Ok((rate_or_none(from)?, rate_or_none(to)?, length))
}

/// A share between 0 and 1: `0.7`, `70%`.
///
/// **Errors**: it is no number, or outside of 0 to 1.
pub fn share(text: &str) -> Result<f64, ValueError> {
    let (number, whole) = match text.strip_suffix('%') {
        Some(number) => (number, 100.0),
        None => (text, 1.0),
    };
    let share = number.parse::<f64>().ok().map(|number| number / whole);
    share.filter(|share| (0.0..=1.0).contains(share)).ok_or_else(|| ValueError::Share(text.to_owned()))
}

/// A whole number from `least` to `most`.
///
/// **Errors**: it is no number, or outside of the bounds.
pub fn number(text: &str, least: u64, most: u64) -> Result<u64, ValueError> {
    let number = text.parse::<u64>().ok().filter(|number| (least..=most).contains(number));
    number.ok_or_else(|| ValueError::Number { text: text.to_owned(), least, most })
}

/// Words with commas between them; none may be empty.
///
/// **Errors**: a place is empty.
pub fn list(text: &str) -> Result<Vec<String>, ValueError> {
    let words: Vec<String> = text.split(',').map(|word| word.trim().to_owned()).collect();
    if words.iter().any(String::is_empty) {
        return Err(ValueError::EmptyPlace(text.to_owned()));
    }
    Ok(words)
}

/// One address, or every usable host address of a block.
///
/// **Cost**: at most [`SOURCES`] addresses; a larger block is an error.
///
/// **Errors**: it is no address or block, or the block is too large.
pub fn sources(text: &str) -> Result<Vec<IpAddr>, ValueError> {
    let wrong = || ValueError::Source(text.to_owned());
    let Some((address, length)) = text.split_once('/') else {
        return Ok(vec![text.parse().map_err(|_| wrong())?]);
    };
    let address: IpAddr = address.parse().map_err(|_| wrong())?;
    let bits: u32 = if address.is_ipv4() { 32 } else { 128 };
    let length = length.parse::<u32>().ok().filter(|length| *length <= bits).ok_or_else(wrong)?;
    let free = bits - length;
    if free > SOURCES.ilog2() {
        let longest = bits - SOURCES.ilog2();
        return Err(ValueError::LargeBlock { text: text.to_owned(), longest });
    }
    let count = 1_u128 << free;
    let all = (0..count).map(|number| match address {
        IpAddr::V4(base) => {
            let first = u128::from(base.to_bits()) & !(count - 1);
            // Fits: the bits above 32 are those of a 32-bit number.
            IpAddr::V4(Ipv4Addr::from_bits(u32::try_from(first | number).unwrap_or(0)))
        }
        IpAddr::V6(base) => IpAddr::V6(Ipv6Addr::from_bits((base.to_bits() & !(count - 1)) | number)),
    });
    Ok(all.collect())
}

/// A target.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Aim {
    /// Target to connect to.
    pub target: Target,
    /// `Host` or `:authority`, and path with query; `None` for TLS alone.
    pub http: Option<(String, String)>,
}

/// The text that follows a scheme and `://`. A scheme is the same in capitals (RFC 3986 §3.1).
fn after_scheme<'t>(text: &'t str, scheme: &str) -> Option<&'t str> {
    let (found, rest) = text.split_once("://")?;
    found.eq_ignore_ascii_case(scheme).then_some(rest)
}

/// `HOST:PORT`, `[::1]:443`, `https://host[:port]/path`, or without TLS `http://host[:port]/path`.
///
/// **Errors**: it is no target, or has parts that cannot be sent.
pub fn aim(text: &str) -> Result<Aim, ValueError> {
    let plain = after_scheme(text, "http");
    if let Some(rest) = plain.or_else(|| after_scheme(text, "https")) {
        let end = rest.find(['/', '?', '#']).unwrap_or(rest.len());
        let (authority, path) = rest.split_at(end);
        let path = path.split('#').next().unwrap_or("");
        let path = if path.starts_with('/') { path.to_owned() } else { format!("/{path}") };
        if path.bytes().any(|byte| byte <= b' ' || byte == 0x7f || byte > 0x7f) {
            return Err(ValueError::PathLetters(text.to_owned()));
        }
        if authority.contains('@') {
            return Err(ValueError::User(text.to_owned()));
        }
        let port = if plain.is_some() { 80 } else { 443 };
        let target = endpoint(authority, Some(port)).ok_or_else(|| ValueError::Url(text.to_owned()))?;
        let target = Target { plain: plain.is_some(), ..target };
        return Ok(Aim { target, http: Some((authority.to_owned(), path)) });
    }
    let target = endpoint(text, None).ok_or_else(|| match endpoint(text, Some(443)) {
        Some(_) => ValueError::NoPort(text.to_owned()),
        None => ValueError::Target(text.to_owned()),
    })?;
    Ok(Aim { target, http: None })
}

/// `HOST:PORT`.
///
/// **Errors**: it is no target.
pub fn also(text: &str) -> Result<Target, ValueError> {
    endpoint(text, None).ok_or_else(|| ValueError::Target(text.to_owned()))
}

/// Host and port; the brackets around an IPv6 address are not part of it.
fn endpoint(text: &str, default_port: Option<u16>) -> Option<Target> {
    let (host, port) = match text.strip_prefix('[') {
        Some(rest) => {
            let (host, after) = rest.split_once(']')?;
            host.parse::<Ipv6Addr>().ok()?;
            (host, if after.is_empty() { None } else { Some(after.strip_prefix(':')?) })
        }
        None => match text.split_once(':') {
            Some((host, port)) => (host, Some(port)),
            None => (text, None),
        },
    };
    let port = match port {
        Some(port) => port.parse::<u16>().ok().filter(|port| *port > 0)?,
        None => default_port?,
    };
    let allowed = |c: char| c.is_ascii_alphanumeric() || ".-_:".contains(c);
    let good = !host.is_empty() && host.len() <= 253 && host.chars().all(allowed);
    good.then(|| Target { host: host.to_owned(), port, plain: false })
}

#[cfg(test)]
mod tests;
