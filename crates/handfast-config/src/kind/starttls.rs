//! Protocols before TLS, and names for a greeting.

use handfast_text::suggest::{did_you_mean, one_of};
use handfast_wire::starttls::{Protocol, is_safe_name};

use crate::problem::{Fault, shortened};
use crate::reading::{Item, Reading};
use crate::schema::ValueKind;

/// A protocol in which clients request TLS (STARTTLS).
pub(crate) struct StarttlsProtocol;

/// What other programs call them.
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

    fn allowed(&self) -> String {
        one_of(Protocol::ALL.into_iter().map(Protocol::name))
    }

    fn parse(&self, item: &Item<'_>, _: &Reading<'_>) -> Result<Protocol, Fault> {
        let text = self.text(item)?;
        if matches!(text, "ftp" | "ftps") {
            let what = "FTP cannot be served: its files go over connections of their own, whose ports are told inside the \
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

/// A name for a greeting.
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
