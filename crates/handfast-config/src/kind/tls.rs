//! The types of values for TLS and for what is spoken before it: names, pins, protocols.

use std::net::IpAddr;

use handfast_pki::Pin;
use handfast_pki::rules::{FORMS, Rule};
use handfast_text::suggest::{did_you_mean, one_of};
use handfast_wire::starttls::{Protocol, is_safe_name};
use toml::de::DeValue;

use super::{List, address};
use crate::model::{BackendAlpn, SentName};
use crate::problem::{Fault, shortened};
use crate::reading::{Item, Reading, values};
use crate::scalar;
use crate::schema::{Shape, ValueKind};

/// A DNS name or an IP address that a certificate can be for.
pub(crate) struct HostName;

impl ValueKind for HostName {
    type Value = String;
    const FORM: &'static str = "text, such as `\"backend.example.org\"`";
    const ALLOWED: &'static str = "a DNS name or an IP address, without a port";

    fn parse(&self, item: &Item<'_>, _: &Reading<'_>) -> Result<String, Fault> {
        let text = self.text(item)?;
        let bare = text.strip_prefix('[').and_then(|text| text.strip_suffix(']')).unwrap_or(text);
        match bare.parse::<IpAddr>() {
            Ok(address) => Ok(address.to_string()),
            Err(_) => dns_name(text).map_err(|fault| fault.allowed(self.allowed())),
        }
    }
}

fn dns_name(text: &str) -> Result<String, Fault> {
    if text.contains('*') {
        return Err(Fault::new(format!("`{}` is a wildcard; one name is needed", shortened(text))));
    }
    scalar::name_pattern(text)
}

/// The name that is sent as SNI, or `none`.
pub(crate) struct SentServerName;

impl ValueKind for SentServerName {
    type Value = SentName;
    const FORM: &'static str = "text, such as `\"tenant.example.org\"`";
    const ALLOWED: &'static str = "a DNS name, or `none`";

    fn parse(&self, item: &Item<'_>, _: &Reading<'_>) -> Result<SentName, Fault> {
        match self.text(item)? {
            "none" => Ok(SentName::Nothing),
            text if text.parse::<IpAddr>().is_ok() => {
                Err(Fault::new(format!("`{text}` is an IP address, which SNI cannot hold (RFC 6066 §3)"))
                    .allowed(self.allowed()))
            }
            text => dns_name(text).map(SentName::Name),
        }
    }
}

pub(crate) struct PublicKeyPin;

impl ValueKind for PublicKeyPin {
    type Value = Pin;
    const FORM: &'static str = "text, such as `\"sha256/47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU=\"`";
    const ALLOWED: &'static str = "`sha256/` and 44 characters of base64";

    fn parse(&self, item: &Item<'_>, _: &Reading<'_>) -> Result<Pin, Fault> {
        let text = self.text(item)?;
        let fault =
            |error| Fault::new(format!("`{}` is not the pin of a public key: {error}", shortened(text)));
        text.parse::<Pin>().map_err(fault)
    }
}

pub(crate) struct Identity;

impl ValueKind for Identity {
    type Value = Rule;
    const FORM: &'static str = "text, such as `\"dns:*.example.org\"`";
    const ALLOWED: &'static str = FORMS;

    fn parse(&self, item: &Item<'_>, _: &Reading<'_>) -> Result<Rule, Fault> {
        Rule::parse(self.text(item)?).map_err(|error| Fault::new(error.to_string()))
    }
}

/// Application protocols, or `client`.
pub(crate) struct BackendProtocols;

impl BackendProtocols {
    const LIST: List<address::Protocol> = List { bare: false, least: 0, ..List::of(address::Protocol) };
}

impl ValueKind for BackendProtocols {
    type Value = BackendAlpn;

    fn shape(&self) -> Shape {
        Shape::OneOf(vec![Self::LIST.shape(), Shape::Words(vec!["client"])])
    }

    fn form(&self) -> String {
        format!("{}; or `\"client\"`", Self::LIST.form())
    }

    fn allowed(&self) -> String {
        Self::LIST.allowed()
    }

    fn read(&self, item: &Item<'_>, reading: &Reading<'_>) -> Option<BackendAlpn> {
        match item.value {
            DeValue::String(text) if text == "client" => Some(BackendAlpn::Client),
            DeValue::String(text) => {
                let hint = format!("write `[\"{text}\"]`, or `\"client\"` for what the client agreed to");
                reading.error(&item.span, Self::LIST.wrong_type(item).hint(hint));
                None
            }
            _ => Self::LIST.read(item, reading).map(|list| BackendAlpn::Own(values(list))),
        }
    }
}

pub(crate) struct StarttlsProtocol;

const ALSO: [(&str, &str); 7] = [
    ("pgsql", "postgresql"),
    ("postgres", "postgresql"),
    ("mariadb", "mysql"),
    ("submission", "smtp"),
    ("stls", "pop3"),
    ("xmpp-client", "xmpp"),
    ("jabber", "xmpp"),
];

impl ValueKind for StarttlsProtocol {
    type Value = Protocol;
    const FORM: &'static str = "text, such as `\"smtp\"`";

    fn shape(&self) -> Shape {
        Shape::Words(Protocol::ALL.into_iter().map(Protocol::name).collect())
    }

    fn allowed(&self) -> String {
        one_of(Protocol::ALL.into_iter().map(Protocol::name))
    }

    fn parse(&self, item: &Item<'_>, _: &Reading<'_>) -> Result<Protocol, Fault> {
        let text = self.text(item)?;
        if matches!(text, "ftp" | "ftps") {
            let what = "FTP cannot be served: its files go over separate connections, whose ports are announced inside the \
                        encrypted one";
            return Err(Fault::new(what).hint("let the FTP server speak TLS itself, or use SFTP (SSH)"));
        }
        Protocol::named(text).ok_or_else(|| {
            let known = ALSO.iter().find(|(also, _)| *also == text);
            let hint = known.map(|(_, word)| format!("write `\"{word}\"`"));
            Fault::new(format!("`{}` is not one of the possible values", shortened(text)))
                .allowed(self.allowed())
                .maybe_hint(
                    hint.or_else(|| did_you_mean(text, Protocol::ALL.into_iter().map(Protocol::name))),
                )
        })
    }
}

pub(crate) struct AnnouncedName;

impl ValueKind for AnnouncedName {
    type Value = String;
    const FORM: &'static str = "text, such as `\"mail.example.org\"`";
    const ALLOWED: &'static str = "1 to 255 letters, digits and `.-_:[]`";

    fn parse(&self, item: &Item<'_>, _: &Reading<'_>) -> Result<String, Fault> {
        match self.text(item)? {
            text if is_safe_name(text) => Ok(text.to_owned()),
            text => Err(Fault::new(format!("`{}` cannot be a name in a greeting", shortened(text)))
                .allowed(self.allowed())),
        }
    }
}
