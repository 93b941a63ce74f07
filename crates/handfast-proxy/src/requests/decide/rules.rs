//! Changes that a route makes to requests and responses.
//!
//! In: the rules of a route, and the facts of a request. Out: fields for the backend; and fields of the response, whose values are made
//! with the request. A request of a route without rules has none of this.

use std::borrow::Cow;
use std::rc::Rc;

use handfast_config::model::{FieldChange, FieldRule, Piece, RequestRules, Template, Variable};
use handfast_http::http1::{Field, Kind, RequestHead, WrittenHead, push_field};

use crate::requests::decide::client_certificate;
use crate::requests::decide::connection::HttpConnection;
use crate::requests::head::sender::Identified;

/// Facts about a request.
#[derive(Clone, Copy)]
pub(crate) struct RequestFacts<'a> {
    pub(crate) head: &'a RequestHead<'a>,
    /// The path and the query as they are forwarded.
    pub(crate) path: &'a [u8],
    pub(crate) connection: &'a HttpConnection,
    pub(crate) id: &'a str,
    /// Its `traceparent`, where the service has traces.
    pub(crate) trace: Option<&'a str>,
    /// A random number, where a route is for a share of its requests.
    pub(crate) chance: u64,
    /// `None`: its route does not ask, or it is not known yet.
    pub(crate) sender: Option<&'a Identified>,
}

impl RequestFacts<'_> {
    /// The text of a template. It may hold whatever the client sent or has in its certificate.
    pub(crate) fn text(&self, template: &Template) -> Vec<u8> {
        let mut text = Vec::new();
        for piece in &template.0 {
            match piece {
                Piece::Text(literal) => text.extend_from_slice(literal.as_bytes()),
                Piece::Variable(variable) => text.extend_from_slice(&self.value(*variable)),
            }
        }
        text
    }

    pub(super) fn value(&self, variable: Variable) -> Cow<'_, [u8]> {
        let connection = self.connection;
        let certificate = connection.client_certificate.as_deref();
        let value = match variable {
            Variable::ClientAddress => connection.client_address.as_deref().map(str::as_bytes),
            Variable::TlsVersion => connection.facts.tls_version.map(str::as_bytes),
            Variable::ServerName => connection.facts.server_name.as_deref().map(str::as_bytes),
            Variable::ClientSubject => certificate.map(|shown| shown.subject.as_bytes()),
            Variable::ClientFingerprint => certificate.map(|shown| shown.fingerprint.as_bytes()),
            Variable::RequestId => Some(self.id.as_bytes()),
            Variable::User => self.sender.and_then(|sender| sender.user.as_deref()).map(str::as_bytes),
            Variable::Scheme => Some(connection.scheme().as_bytes()),
            Variable::Host => Some(self.head.host.name),
            Variable::ClientCertificate
            | Variable::ClientCertificateChain
            | Variable::ClientCertificateDer
            | Variable::ClientCertificatePem => {
                return client_certificate::value(variable, &connection.client_chain);
            }
            Variable::Path => return Cow::Owned(without_query(&self.target())),
            Variable::Query => return Cow::Borrowed(query(self.path)),
            Variable::Target => return Cow::Owned(self.target()),
        };
        Cow::Borrowed(value.unwrap_or_default())
    }

    /// The path and the query, from its first slash.
    fn target(&self) -> Vec<u8> {
        // The target of OPTIONS may be an asterisk.
        if self.path.first() == Some(&b'/') { self.path.to_vec() } else { b"/".to_vec() }
    }
}

/// From its question mark.
fn query(target: &[u8]) -> &[u8] {
    target.iter().position(|byte| *byte == b'?').map_or(&[], |at| &target[at..])
}

fn without_query(target: &[u8]) -> Vec<u8> {
    target.split(|byte| *byte == b'?').next().unwrap_or_default().to_vec()
}

/// Returns the value of `Host` that a rule sets; a request whose value is no host is refused before it is forwarded.
pub(crate) fn host(rules: &RequestRules, facts: &RequestFacts<'_>) -> Option<Vec<u8>> {
    let is_host = |rule: &&FieldRule| Kind::of(rule.name.as_bytes()) == Kind::Host;
    match &rules.request.iter().rfind(is_host)?.change {
        FieldChange::Set(value) => Some(facts.text(value)),
        _ => None,
    }
}

/// Returns true if a field of the client is not forwarded.
pub(crate) fn drops(rules: &[FieldRule], name: &[u8]) -> bool {
    let replaces = |rule: &FieldRule| matches!(rule.change, FieldChange::Set(_) | FieldChange::Remove);
    rules.iter().any(|rule| replaces(rule) && name.eq_ignore_ascii_case(rule.name.as_bytes()))
}

/// Writes the fields that backends receive by the rules.
pub(crate) fn write_request_fields(out: &mut WrittenHead, rules: &[FieldRule], facts: &RequestFacts<'_>) {
    for FieldRule { name, change } in rules {
        if let FieldChange::Set(value) | FieldChange::Add(value) = change
            && Kind::of(name.as_bytes()) != Kind::Host
        {
            let value = facts.text(value);
            if !value.is_empty() {
                // A text of the client's, such as its certificate's subject, that cannot be a value is left out.
                let _ = push_field(out, name, &value);
            }
        }
    }
}

/// Changes to the fields of a response.
#[derive(Debug)]
pub(crate) struct ResponseFields {
    rules: Rc<RequestRules>,
    /// For each rule; empty: none is sent.
    values: Vec<Vec<u8>>,
    /// Those of the proxy itself: a cookie, the status of its cache.
    own: Vec<(&'static str, Vec<u8>)>,
}

impl ResponseFields {
    /// `None` where the rules change no response.
    pub(crate) fn new(rules: &Rc<RequestRules>, facts: &RequestFacts<'_>) -> Option<Box<Self>> {
        let value = |rule: &FieldRule| match &rule.change {
            FieldChange::Remove => Vec::new(),
            FieldChange::Set(value) | FieldChange::Add(value) | FieldChange::Default(value) => {
                facts.text(value)
            }
        };
        let values: Vec<_> = rules.response.iter().map(value).collect();
        (!values.is_empty()).then(|| Box::new(Self { rules: Rc::clone(rules), values, own: Vec::new() }))
    }

    /// Adds a field of the proxy itself beside those of the backend, in the place of an earlier one; with `None`, takes that away.
    pub(crate) fn set_own(fields: &mut Option<Box<Self>>, name: &'static str, value: Option<Vec<u8>>) {
        if fields.is_none() && value.is_none() {
            return;
        }
        let empty = || Box::new(Self { rules: Rc::default(), values: Vec::new(), own: Vec::new() });
        let own = &mut fields.get_or_insert_with(empty).own;
        own.retain(|(known, _)| *known != name);
        own.extend(value.map(|value| (name, value)));
    }

    /// Returns true if a field of the backend is not forwarded.
    pub(crate) fn drops(&self, name: &[u8]) -> bool {
        drops(&self.rules.response, name)
    }

    /// The fields that clients receive by the rules; `has`: whether a field is there without them.
    pub(crate) fn added<'a>(
        &'a self,
        has: impl Fn(&str) -> bool + 'a,
    ) -> impl Iterator<Item = (&'a str, &'a [u8])> {
        let fields = self.rules.response.iter().zip(&self.values);
        let added = fields.filter_map(move |(rule, value)| {
            let is_default = matches!(rule.change, FieldChange::Default(_));
            let is_left_out = value.is_empty() || is_default && has(&rule.name);
            (!is_left_out).then_some((&*rule.name, value.as_slice()))
        });
        added.chain(self.own.iter().map(|(name, value)| (*name, value.as_slice())))
    }
}

/// Returns true if one of these fields has this name.
pub(crate) fn has_field(text: &[u8], fields: &[Field], name: &str) -> bool {
    fields.iter().any(|field| field.name(text).eq_ignore_ascii_case(name.as_bytes()))
}

#[cfg(test)]
mod tests;
