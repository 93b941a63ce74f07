//! The protocols whose way to TLS is known here: their words, and the side that sends first.

use std::fmt;

/// A protocol that begins in plain text and changes to TLS on the same connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Protocol {
    /// Mail submission and transport (RFC 3207).
    Smtp,
    /// Local mail delivery (RFC 2033), which upgrades as SMTP does.
    Lmtp,
    /// Mailboxes (RFC 9051 §6.2.1).
    Imap,
    /// Mailboxes (RFC 2595 §4).
    Pop3,
    /// News (RFC 4642).
    Nntp,
    /// Directories (RFC 4511 §4.14).
    Ldap,
    /// PostgreSQL (its documentation, "SSL Session Encryption" in "Message Flow").
    PostgreSql,
    /// MySQL and MariaDB (their documentation, "Connection Phase").
    MySql,
    /// Chat, from client to server (RFC 6120 §5).
    Xmpp,
    /// Chat, from server to server.
    XmppServer,
}

impl Protocol {
    /// Every one.
    pub const ALL: [Self; 10] = [
        Self::Smtp,
        Self::Lmtp,
        Self::Imap,
        Self::Pop3,
        Self::Nntp,
        Self::Ldap,
        Self::PostgreSql,
        Self::MySql,
        Self::Xmpp,
        Self::XmppServer,
    ];

    /// The word used in configurations, logs and labels.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Smtp => "smtp",
            Self::Lmtp => "lmtp",
            Self::Imap => "imap",
            Self::Pop3 => "pop3",
            Self::Nntp => "nntp",
            Self::Ldap => "ldap",
            Self::PostgreSql => "postgresql",
            Self::MySql => "mysql",
            Self::Xmpp => "xmpp",
            Self::XmppServer => "xmpp-server",
        }
    }

    /// The one that has this word.
    pub fn named(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|protocol| protocol.name() == word)
    }

    /// Returns true if a server sends first. A client that waits for the greeting cannot be recognised by its first byte as one that
    /// begins TLS at once: it has been greeted by then.
    pub const fn server_speaks_first(self) -> bool {
        match self {
            Self::Smtp | Self::Lmtp | Self::Imap | Self::Pop3 | Self::Nntp | Self::MySql => true,
            Self::Ldap | Self::PostgreSql | Self::Xmpp | Self::XmppServer => false,
        }
    }

    /// Returns the number of bytes at the start that have no meaning before TLS: white space of XML (space, tab, CR, LF), in XMPP alone.
    /// It is never forwarded.
    pub fn leading_blanks(self, bytes: &[u8]) -> usize {
        let is_blank = |byte: &&u8| matches!(byte, b' ' | b'\t' | b'\r' | b'\n');
        match self {
            Self::Xmpp | Self::XmppServer => bytes.iter().take_while(is_blank).count(),
            _ => 0,
        }
    }
}

impl fmt::Display for Protocol {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Smtp => "SMTP",
            Self::Lmtp => "LMTP",
            Self::Imap => "IMAP",
            Self::Pop3 => "POP3",
            Self::Nntp => "NNTP",
            Self::Ldap => "LDAP",
            Self::PostgreSql => "PostgreSQL",
            Self::MySql => "MySQL",
            Self::Xmpp => "XMPP",
            Self::XmppServer => "XMPP between servers",
        })
    }
}

/// Returns true if `name` can be part of a greeting, an attribute or a request line without ending it: letters, digits and
/// `.-_:[]`, and letters of other scripts; 1 to 255 bytes.
pub fn is_safe_name(name: &str) -> bool {
    let safe = |c: char| c.is_alphanumeric() || matches!(c, '.' | '-' | '_' | ':' | '[' | ']');
    !name.is_empty() && name.len() <= 255 && name.chars().all(safe)
}
