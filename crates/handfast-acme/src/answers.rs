//! Answers to challenges that are open now, for the listeners that issuers ask.
//!
//! In: challenges of an order. Out: values that do not change; a listener gets new ones whenever they differ.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use handfast_pki::certificate::Certificate;
use rcgen::{CertificateParams, CustomExtension, DistinguishedName, KeyPair};

use crate::error::Error;
use crate::name::Name;

/// Answers that are taken from one other machine, of each kind: it has one order at a time.
const MAX_REMOTE_ANSWERS: usize = 100;

/// Answers to all open challenges.
#[derive(Clone, Debug, Default)]
pub struct Answers {
    /// The content of the file for HTTP-01, by its token.
    pub files: BTreeMap<Box<str>, Box<str>>,
    /// The certificate for TLS-ALPN-01, by the requested server name.
    pub certificates: BTreeMap<Box<str>, Arc<Certificate>>,
    /// The same in PEM, with their keys, for other machines that may be asked.
    pub texts: BTreeMap<Box<str>, Box<str>>,
}

impl Answers {
    /// Returns true if no challenge is open.
    pub fn is_empty(&self) -> bool {
        self.files.is_empty() && self.certificates.is_empty()
    }

    /// Adds the answer of HTTP-01. Tokens with other letters than base64url has are left out: no issuer makes such (RFC 8555 §8.3).
    pub(crate) fn add_file(&mut self, token: &str, content: &str) {
        let is_letter = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_';
        if !token.is_empty() && token.len() <= 256 && token.bytes().all(is_letter) {
            self.files.insert(token.into(), content.into());
        }
    }

    /// Adds the answer of TLS-ALPN-01: a certificate that signs itself, with the digest of the key authorization (RFC 8737 §3).
    ///
    /// **Errors**: the key cannot be made.
    pub(crate) fn add_certificate(&mut self, name: &Name, digest: &[u8], now: i64) -> Result<(), Error> {
        let mut params = CertificateParams::new(vec![name.to_string()]).map_err(Error::key)?;
        params.distinguished_name = DistinguishedName::new();
        params.custom_extensions = vec![CustomExtension::new_acme_identifier(digest)];
        let key = KeyPair::generate().map_err(Error::key)?;
        let pem = params.self_signed(&key).map_err(Error::key)?.pem() + &key.serialize_pem();
        self.add_text(&name.challenge_server_name(), &pem, now)
    }

    /// Adds a certificate with its key, in PEM, for a server name. **Errors**: it cannot be used.
    fn add_text(&mut self, server_name: &str, pem: &str, now: i64) -> Result<(), Error> {
        let (certificate, findings) = Certificate::from_pem(pem.as_bytes(), Path::new("(challenge)"), now);
        let certificate = certificate.ok_or_else(|| Error::certificate(&findings))?;
        self.certificates.insert(server_name.into(), Arc::new(certificate));
        self.texts.insert(server_name.into(), pem.into());
        Ok(())
    }

    /// Builds the answers from another machine: contents of files by their tokens, certificates with keys by server names. Invalid
    /// entries are left out, and so are all beyond a bound.
    pub fn from_remote<'a>(
        files: impl IntoIterator<Item = (&'a str, &'a str)>,
        texts: impl IntoIterator<Item = (&'a str, &'a str)>,
        now: i64,
    ) -> Self {
        let mut answers = Self::default();
        for (token, content) in
            files.into_iter().take(MAX_REMOTE_ANSWERS).filter(|(_, content)| content.len() <= 1_024)
        {
            answers.add_file(token, content);
        }
        for (server_name, pem) in texts.into_iter().take(MAX_REMOTE_ANSWERS) {
            if let Err(error) = answers.add_text(server_name, pem, now) {
                tracing::debug!("acme: another machine's answer for {server_name}: {error}");
            }
        }
        answers
    }

    /// Adds those of another machine.
    pub fn extend(&mut self, others: &Self) {
        let Self { files, certificates, texts } = others.clone();
        self.files.extend(files);
        self.certificates.extend(certificates);
        self.texts.extend(texts);
    }
}
