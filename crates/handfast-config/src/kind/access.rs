//! The types of values that decide which requests a route takes.

use std::sync::Arc;
use std::time::Duration;

use handfast_http::http1::is_token;
use toml::de::DeValue;

use crate::keys::{PREFIX_V4, PREFIX_V6, route_access as keys};
use crate::kind::{BackendEntry, List};
use crate::model;
use crate::problem::{Fault, shortened};
use crate::reading::{Item, Reading, Written, values};
use crate::schema::{Key, Section, Shape, ValueKind};
use crate::table::Table;

/// A limit on requests.
pub(crate) struct RateLimit;

impl ValueKind for RateLimit {
    type Value = model::RequestRate;
    const FORM: &'static str = "table, such as `{ requests = 100, per = \"1s\" }`";

    fn shape(&self) -> Shape {
        Shape::Table(&keys::RATE_LIMIT_TABLE)
    }

    fn read(&self, item: &Item<'_>, reading: &Reading<'_>) -> Option<model::RequestRate> {
        let DeValue::Table(entries) = item.value else {
            reading.error(&item.span, self.wrong_type(item));
            return None;
        };
        let table = Table::open(&keys::RATE_LIMIT_TABLE, entries, item.span.clone(), reading);
        let requests = table.required(&keys::RATE_REQUESTS);
        let (per, by) = (table.or_default(&keys::RATE_PER), table.or_default(&keys::RATE_BY));
        let burst = table.optional(&keys::RATE_BURST);
        let (prefix_v4, prefix_v6) = (table.or_default(&PREFIX_V4), table.or_default(&PREFIX_V6));
        if by == model::RateKey::Route {
            for key in [&PREFIX_V4, &PREFIX_V6] {
                let why = "all requests of the route are counted together";
                crate::check::warn_no_effect(&table, key, why);
            }
        }
        let requests = requests?;
        let burst = burst.unwrap_or(requests);
        Some(model::RequestRate { requests, per, burst, by, prefix_v4, prefix_v6 })
    }
}

/// The key by which requests are counted together.
pub(crate) struct RateKey;

impl ValueKind for RateKey {
    type Value = model::RateKey;
    const FORM: &'static str = "text, such as `\"header:x-api-key\"`";
    const ALLOWED: &'static str = "`client`, `route`, or `header:` and the name of a field";

    fn parse(&self, item: &Item<'_>, _: &Reading<'_>) -> Result<model::RateKey, Fault> {
        let text = self.text(item)?;
        let wrong = |what: String| Fault::new(what).allowed(self.allowed());
        match (text, text.split_once(':')) {
            ("client", _) => Ok(model::RateKey::Client),
            ("route", _) => Ok(model::RateKey::Route),
            (_, Some(("header", name))) if is_token(name.as_bytes()) => {
                Ok(model::RateKey::Field(name.to_ascii_lowercase().into()))
            }
            (_, Some(("header", name))) => {
                Err(wrong(format!("`{}` is not the name of a field", shortened(name)))
                    .hint("names consist of letters, digits and `-`: `header:x-api-key`"))
            }
            _ => {
                let is_name = is_token(text.as_bytes());
                let hint = is_name.then(|| format!("write `header:{}` for a field", shortened(text)));
                Err(wrong(format!("`{}` is not one of the possible values", shortened(text)))
                    .maybe_hint(hint))
            }
        }
    }
}

/// Opens the table of a key that a route can switch off; the inner `None`: `false`. Reports another value.
fn table_or_false<'t>(
    kind: &impl ValueKind,
    section: &'static Section,
    item: &Item<'t>,
    reading: &'t Reading<'t>,
) -> Option<Option<Table<'t>>> {
    match item.value {
        DeValue::Table(entries) => Some(Some(Table::open(section, entries, item.span.clone(), reading))),
        DeValue::Boolean(false) => Some(None),
        _ => {
            reading.error(&item.span, kind.wrong_type(item));
            None
        }
    }
}

/// Names and passwords of clients.
pub(crate) struct BasicAuth;

impl ValueKind for BasicAuth {
    /// `None`: `false`.
    type Value = Option<model::BasicAuth>;
    const FORM: &'static str = "table, such as `{ file = \"users.htpasswd\" }`, or `false`";

    fn shape(&self) -> Shape {
        Shape::table_or_false(&keys::BASIC_AUTH_TABLE)
    }

    fn read(&self, item: &Item<'_>, reading: &Reading<'_>) -> Option<Option<model::BasicAuth>> {
        let Some(table) = table_or_false(self, &keys::BASIC_AUTH_TABLE, item, reading)? else {
            return Some(None);
        };
        let file = table.required(&keys::BASIC_AUTH_FILE);
        let realm = table.or_default(&keys::BASIC_AUTH_REALM).into();
        let passes = table.or_default(&keys::BASIC_AUTH_PASS);
        Some(Some(model::BasicAuth { file: file?, realm, passes }))
    }
}

/// The realm of a password (RFC 9110 §11.5).
pub(crate) struct Realm;

impl ValueKind for Realm {
    type Value = String;
    const FORM: &'static str = "text, such as `\"Example\"`";
    const ALLOWED: &'static str =
        "1 to 128 letters, digits, spaces and signs of ASCII, without `\"` and `\\`";

    fn parse(&self, item: &Item<'_>, _: &Reading<'_>) -> Result<String, Fault> {
        let text = self.text(item)?;
        let is_good = |byte: u8| (b' '..=b'~').contains(&byte) && !matches!(byte, b'"' | b'\\');
        if (1..=128).contains(&text.len()) && text.bytes().all(is_good) {
            return Ok(text.to_owned());
        }
        Err(Fault::new(format!("`{}` cannot be a realm", shortened(text))).allowed(self.allowed()))
    }
}

/// A server that is asked about each request.
pub(crate) struct ForwardAuth;

impl ValueKind for ForwardAuth {
    /// `None`: `false`.
    type Value = Option<model::ForwardAuth>;
    const FORM: &'static str = "table, such as `{ to = \"10.0.0.9:4180\", path = \"/auth\" }`, or `false`";

    fn shape(&self) -> Shape {
        Shape::table_or_false(&keys::FORWARD_AUTH_TABLE)
    }

    fn read(&self, item: &Item<'_>, reading: &Reading<'_>) -> Option<Option<model::ForwardAuth>> {
        let Some(table) = table_or_false(self, &keys::FORWARD_AUTH_TABLE, item, reading)? else {
            return Some(None);
        };
        let (to, path) = (table.required(&keys::AUTH_TO), table.required(&keys::AUTH_PATH));
        let (copy, timeout) = (table.list(&keys::AUTH_COPY), table.or_default(&keys::AUTH_TIMEOUT));
        let to = servers(&table, &keys::AUTH_TO, to?)?;
        Some(Some(model::ForwardAuth { to, path: path?.into(), copy, timeout }))
    }
}

/// Servers that receive copies of requests.
pub(crate) struct Mirror;

impl ValueKind for Mirror {
    type Value = model::Mirror;
    const FORM: &'static str = "table, such as `{ to = \"10.0.0.9:8080\", share = \"10%\" }`";

    fn shape(&self) -> Shape {
        Shape::Table(&keys::MIRROR_TABLE)
    }

    fn read(&self, item: &Item<'_>, reading: &Reading<'_>) -> Option<model::Mirror> {
        let DeValue::Table(entries) = item.value else {
            reading.error(&item.span, self.wrong_type(item));
            return None;
        };
        let table = Table::open(&keys::MIRROR_TABLE, entries, item.span.clone(), reading);
        let to = table.required(&keys::MIRROR_TO);
        let share = table.or_default(&keys::MIRROR_SHARE);
        let content = table.or_default(&keys::MIRROR_CONTENT);
        Some(model::Mirror { to: servers(&table, &keys::MIRROR_TO, to?)?, share, content })
    }
}

/// Servers beside the backends; `None`: one of them cannot be one.
fn servers(
    table: &Table<'_>,
    key: &Key<List<BackendEntry>>,
    servers: Vec<Written<model::Backend>>,
) -> Option<Arc<[model::Backend]>> {
    crate::check::backends(table, key, &[], &servers);
    if servers.iter().any(|server| server.value.target.is_program()) {
        let fault = Fault::new("a program cannot be asked about requests: it would be started for each");
        table.error(key, fault.hint("write the address of a server"));
        return None;
    }
    Some(values(servers).into())
}

/// A share of requests.
pub(crate) struct Share;

impl ValueKind for Share {
    type Value = model::Share;
    const FORM: &'static str = "text, such as `\"5%\"`";
    const ALLOWED: &'static str = "`0.01%` to `100%`, with two digits behind the point at most";

    fn parse(&self, item: &Item<'_>, _: &Reading<'_>) -> Result<model::Share, Fault> {
        let text = self.text(item)?;
        let wrong = |what: &str| Fault::new(format!("`{}` {what}", shortened(text))).allowed(self.allowed());
        let Some(number) = text.strip_suffix('%') else {
            let is_number = text.parse::<f64>().is_ok();
            let hint = is_number.then(|| format!("write `{}%`", shortened(text)));
            return Err(wrong("is not a share").maybe_hint(hint));
        };
        let (whole, fraction) = number.trim_end().split_once('.').unwrap_or((number.trim_end(), "0"));
        let are_digits = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
        if !are_digits(whole) || !are_digits(fraction) || fraction.len() > 2 || whole.len() > 3 {
            return Err(wrong("is not a share"));
        }
        let hundredths = format!("{whole}{fraction:0<2}").parse().ok().and_then(model::Share::of_hundredths);
        hundredths.ok_or_else(|| wrong("is out of range"))
    }
}

/// The path of a server that is asked about requests.
pub(crate) struct AuthPath;

impl ValueKind for AuthPath {
    type Value = String;
    const FORM: &'static str = "text, such as `\"/oauth2/auth\"`";
    const ALLOWED: &'static str = "`/` and what follows it, with a query";

    fn parse(&self, item: &Item<'_>, _: &Reading<'_>) -> Result<String, Fault> {
        let text = self.text(item)?;
        if text.starts_with('/') && text.bytes().all(|byte| byte.is_ascii_graphic() && byte != b'#') {
            return Ok(text.to_owned());
        }
        let fault = Fault::new(format!("`{}` cannot be asked for", shortened(text))).allowed(self.allowed());
        let is_url = text.contains("://");
        Err(fault.maybe_hint(is_url.then(|| "write the address in `to`, and here only the path".to_owned())))
    }
}

/// Number of requests that wait for a backend, and their timeout.
pub(crate) struct Queue;

impl ValueKind for Queue {
    type Value = (usize, Duration);
    const FORM: &'static str = "table, such as `{ length = 100, timeout = \"5s\" }`";

    fn shape(&self) -> Shape {
        Shape::Table(&keys::QUEUE_TABLE)
    }

    fn read(&self, item: &Item<'_>, reading: &Reading<'_>) -> Option<Self::Value> {
        let DeValue::Table(entries) = item.value else {
            reading.error(&item.span, self.wrong_type(item));
            return None;
        };
        let table = Table::open(&keys::QUEUE_TABLE, entries, item.span.clone(), reading);
        let (length, timeout) =
            (table.or_default(&keys::QUEUE_LENGTH), table.or_default(&keys::QUEUE_TIMEOUT));
        if length == 0 {
            crate::check::warn_no_effect(&table, &keys::QUEUE_TIMEOUT, "no request waits (`length = 0`)");
        }
        Some((length, timeout))
    }
}

/// Session affinity: a client's requests go to one backend.
pub(crate) struct Sticky;

impl ValueKind for Sticky {
    type Value = model::Sticky;
    const FORM: &'static str = "table, such as `{ cookie = \"srv\" }` or `{ header = \"x-user\" }`";

    fn shape(&self) -> Shape {
        Shape::Table(&keys::STICKY_TABLE)
    }

    fn read(&self, item: &Item<'_>, reading: &Reading<'_>) -> Option<model::Sticky> {
        let DeValue::Table(entries) = item.value else {
            reading.error(&item.span, self.wrong_type(item));
            return None;
        };
        let table = Table::open(&keys::STICKY_TABLE, entries, item.span.clone(), reading);
        let (cookie, header) = (table.optional(&keys::STICKY_COOKIE), table.optional(&keys::STICKY_HEADER));
        let (key, same_site) = (table.optional(&keys::STICKY_KEY), table.or_default(&keys::STICKY_SAME_SITE));
        let is_written = |key: &dyn crate::schema::Entry| table.written(key).is_some();
        match (is_written(&keys::STICKY_COOKIE), is_written(&keys::STICKY_HEADER)) {
            (false, false) => {
                let fault = Fault::new("nothing says how clients are kept at their backends");
                table.missing(fault.hint("write `cookie` or `header`"));
                return None;
            }
            (true, true) => {
                let fault = Fault::new("a cookie or a field keeps clients at their backends, not both");
                table.error(&keys::STICKY_HEADER, fault.hint("remove one of them"));
                return None;
            }
            (false, true) => {
                let why = "a field decides, and no cookie is set";
                let of_cookies = [&keys::STICKY_KEY as &dyn crate::schema::Entry, &keys::STICKY_SAME_SITE];
                crate::check::no_effect(&table, of_cookies, why);
            }
            (true, false) => {}
        }
        match (cookie, header) {
            (Some(name), _) => Some(model::Sticky::Cookie { name: name.into(), key, same_site }),
            (None, Some(name)) => Some(model::Sticky::Header(name)),
            (None, None) => None,
        }
    }
}

/// The name of a cookie (RFC 6265 §4.1.1).
pub(crate) struct CookieName;

impl ValueKind for CookieName {
    type Value = String;
    const FORM: &'static str = "text, such as `\"srv\"`";
    const ALLOWED: &'static str = "1 to 64 letters, digits and signs of a token";

    fn parse(&self, item: &Item<'_>, _: &Reading<'_>) -> Result<String, Fault> {
        let text = self.text(item)?;
        if is_token(text.as_bytes()) && text.len() <= 64 {
            return Ok(text.to_owned());
        }
        Err(Fault::new(format!("`{}` is not the name of a cookie", shortened(text))).allowed(self.allowed()))
    }
}

/// Maintenance of a service: on, off, or a table.
pub(crate) struct Maintenance;

impl ValueKind for Maintenance {
    /// `None`: `false`.
    type Value = Option<model::Maintenance>;
    const FORM: &'static str =
        "table, such as `{ allow = [\"10.0.0.0/8\"], retry-after = \"10m\" }`; or `true` or `false`";

    fn shape(&self) -> Shape {
        Shape::OneOf(vec![Shape::Switch, Shape::Table(&keys::MAINTENANCE_TABLE)])
    }

    fn read(&self, item: &Item<'_>, reading: &Reading<'_>) -> Option<Self::Value> {
        if matches!(item.value, DeValue::Boolean(true)) {
            return Some(Some(model::Maintenance::default()));
        }
        let Some(table) = table_or_false(self, &keys::MAINTENANCE_TABLE, item, reading)? else {
            return Some(None);
        };
        let (allow, retry_after) =
            (table.list(&keys::MAINTENANCE_ALLOW), table.or_default(&keys::RETRY_AFTER));
        Some(Some(model::Maintenance { allow, retry_after }))
    }
}
