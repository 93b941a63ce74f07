//! Changes of a route to requests and responses, and responses that the proxy makes.

use std::fmt;

/// Changes of a route to requests and responses.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RequestRules {
    /// Fields of the request, towards the backend.
    pub request: Vec<FieldRule>,
    /// Fields of the response, towards the client; also of responses that the proxy makes.
    pub response: Vec<FieldRule>,
    /// Replacement for the route's `path` in the target that the backend receives. It starts with `/`.
    pub new_path: Option<Box<str>>,
}

impl RequestRules {
    /// The texts that it writes.
    pub fn templates(&self) -> impl Iterator<Item = &Template> {
        self.request.iter().chain(&self.response).filter_map(|rule| rule.change.value())
    }

    /// The variables in what it writes into requests.
    pub fn request_variables(&self) -> impl Iterator<Item = Variable> {
        self.request.iter().filter_map(|rule| rule.change.value()).flat_map(Template::variables)
    }

    /// Returns true if nothing is changed.
    pub fn is_empty(&self) -> bool {
        self.request.is_empty() && self.response.is_empty() && self.new_path.is_none()
    }
}

/// A change of one field.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FieldRule {
    /// The field's name, as it is written.
    pub name: Box<str>,
    /// Change to the field.
    pub change: FieldChange,
}

/// Change to a field.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FieldChange {
    /// It is removed.
    Remove,
    /// It has this value, and no other. Removed where the value is empty.
    Set(Template),
    /// It has this value too. Nothing is added where the value is empty.
    Add(Template),
    /// It has this value where there is none.
    Default(Template),
}

impl FieldChange {
    fn value(&self) -> Option<&Template> {
        match self {
            Self::Remove => None,
            Self::Set(value) | Self::Add(value) | Self::Default(value) => Some(value),
        }
    }
}

/// A text with variables.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Template(pub Vec<Piece>);

/// A part of a [`Template`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Piece {
    /// A text as it is.
    Text(Box<str>),
    /// A property of the request. Empty if it is not known.
    Variable(Variable),
}

/// Properties of a request that a template can contain.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Variable {
    /// The client's address, without a port.
    ClientAddress,
    /// The TLS version: `TLSv1.3`.
    TlsVersion,
    /// The name that the client's TLS asked for.
    ServerName,
    /// The subject of the client's certificate, if it was verified.
    ClientSubject,
    /// The SHA-256 fingerprint of the client's certificate in lower-case hexadecimal digits, if it was verified.
    ClientFingerprint,
    /// The client's certificate, if it was verified, as `Client-Cert` has it (RFC 9440 §2.2).
    ClientCertificate,
    /// The certificates that the client sent behind its own, as `Client-Cert-Chain` has them (RFC 9440 §2.3).
    ClientCertificateChain,
    /// The client's certificate, if it was verified, in base64.
    ClientCertificateDer,
    /// The client's certificate, if it was verified, in PEM with percent-encoding.
    ClientCertificatePem,
    /// The request's identifier.
    RequestId,
    /// `https` or `http`.
    Scheme,
    /// The host that the request is for, without a port.
    Host,
    /// The path as the client sent it, without the query.
    Path,
    /// The path and the query as the client sent them.
    Target,
    /// The query as the client sent it, with its question mark; nothing if there is none.
    Query,
    /// The name of the user, where the route asks for one.
    User,
}

impl Variable {
    /// The names in a configuration.
    pub const NAMES: [(&str, Self); 16] = [
        ("client-address", Self::ClientAddress),
        ("tls-version", Self::TlsVersion),
        ("server-name", Self::ServerName),
        ("client-subject", Self::ClientSubject),
        ("client-fingerprint", Self::ClientFingerprint),
        ("client-certificate", Self::ClientCertificate),
        ("client-certificate-chain", Self::ClientCertificateChain),
        ("client-certificate-der", Self::ClientCertificateDer),
        ("client-certificate-pem", Self::ClientCertificatePem),
        ("request-id", Self::RequestId),
        ("scheme", Self::Scheme),
        ("host", Self::Host),
        ("path", Self::Path),
        ("target", Self::Target),
        ("query", Self::Query),
        ("user", Self::User),
    ];

    /// Returns true for a property of the client's certificate.
    pub fn is_about_certificate(self) -> bool {
        matches!(self, Self::ClientSubject | Self::ClientFingerprint)
    }

    /// Returns true for the client's certificate as a whole.
    pub fn is_certificate(self) -> bool {
        matches!(
            self,
            Self::ClientCertificate
                | Self::ClientCertificateChain
                | Self::ClientCertificateDer
                | Self::ClientCertificatePem
        )
    }

    /// Its name in a configuration.
    pub fn name(self) -> &'static str {
        Self::NAMES.iter().find(|(_, known)| *known == self).map_or("", |(name, _)| name)
    }
}

impl Template {
    /// Its variables.
    pub fn variables(&self) -> impl Iterator<Item = Variable> {
        self.0.iter().filter_map(|piece| match piece {
            Piece::Variable(variable) => Some(*variable),
            Piece::Text(_) => None,
        })
    }

    /// A text without variables.
    pub fn text(text: &str) -> Self {
        Self(vec![Piece::Text(text.into())])
    }
}

impl fmt::Display for Template {
    /// As in a configuration.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|piece| match piece {
            Piece::Text(text) => f.write_str(&text.replace('{', "{{").replace('}', "}}")),
            Piece::Variable(variable) => write!(f, "{{{}}}", variable.name()),
        })
    }
}

/// A response of the proxy's own for every request of a route (`respond`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FixedResponse {
    /// Its status, from 200.
    pub status: u16,
    /// Its content.
    pub content: Box<str>,
    /// The type of the content.
    pub content_type: Box<str>,
}
