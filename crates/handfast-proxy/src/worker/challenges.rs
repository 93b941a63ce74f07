//! Answers to challenges of certificate authorities (ACME), as a thread gives them.
//!
//! In: all open challenges, from the thread that orders. Out: the content of a file for HTTP-01, or a TLS server for TLS-ALPN-01; for
//! everything else nothing, so that such requests and handshakes are served as if there were no challenge.

use std::collections::HashMap;
use std::convert::Infallible;
use std::rc::Rc;
use std::sync::Arc;

use handfast_acme::Answers;
use handfast_tls::server::{Server, ServerSettings};
use handfast_tls::ticket::KeySet;
use handfast_wire::ClientHello;
use tokio::sync::mpsc::Sender;

/// Folder of the file of HTTP-01 (RFC 8555 §8.3).
const FOLDER: &[u8] = b"/.well-known/acme-challenge/";
/// Only protocol that a client offers to validate TLS-ALPN-01 (RFC 8737 §4).
const PROTOCOL: &[u8] = b"acme-tls/1";

/// Challenges for every thread. The sender is dropped by each of them once it answers by these.
#[derive(Clone, Debug)]
pub(crate) struct Challenges {
    answers: Arc<Answers>,
    /// Settings of the server for each certificate: a worker can open no file, which some of this needs.
    settings: Arc<HashMap<Box<str>, ServerSettings>>,
    /// Dropped with the last copy.
    _installed: Sender<Infallible>,
}

impl Challenges {
    pub(crate) fn new(answers: Answers, installed: Sender<Infallible>) -> Self {
        let of_each = answers.certificates.iter().filter_map(|(name, certificate)| {
            let settings = ServerSettings::serving_one(Arc::clone(certificate), "acme-tls/1")?;
            Some((name.clone(), settings))
        });
        let settings = Arc::new(of_each.collect());
        Self { answers: Arc::new(answers), settings, _installed: installed }
    }
}

/// Challenges as one thread answers them.
#[derive(Debug, Default)]
pub(crate) struct ThreadChallenges {
    answers: Arc<Answers>,
    servers: HashMap<Box<str>, Rc<Server>>,
}

impl ThreadChallenges {
    /// Makes a TLS server for each certificate.
    pub(crate) fn new(challenges: &Challenges) -> Self {
        let server = |settings: &ServerSettings| {
            Server::new(settings.clone(), Arc::new(KeySet::none())).ok().map(Rc::new)
        };
        let of_each = challenges.settings.iter();
        let servers =
            of_each.filter_map(|(name, settings)| Some((name.clone(), server(settings)?))).collect();
        Self { answers: Arc::clone(&challenges.answers), servers }
    }

    /// The content of the file at a path; `None`: there is no such challenge. A query is no part of a challenge's path.
    pub(crate) fn file(&self, path: &[u8]) -> Option<&str> {
        let token = std::str::from_utf8(path.strip_prefix(FOLDER)?).ok()?;
        self.answers.files.get(token).map(AsRef::as_ref)
    }

    /// Returns true if any file can be requested.
    pub(crate) fn has_files(&self) -> bool {
        !self.answers.files.is_empty()
    }

    /// The server for a client that validates; `None`: it does not, or no challenge is open for the name.
    pub(crate) fn server(&self, hello: &ClientHello) -> Option<Rc<Server>> {
        let validates = hello.alpn.len() == 1 && *hello.alpn[0] == *PROTOCOL;
        let name = hello.server_name.as_deref().filter(|_| validates && !self.servers.is_empty())?;
        self.servers.get(&*name.to_ascii_lowercase()).cloned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_files_of_open_challenges_are_there() {
        let mut answers = Answers::default();
        answers.files.insert("tok-en_1".into(), "tok-en_1.key".into());
        let (installed, _) = tokio::sync::mpsc::channel(1);
        let challenges = ThreadChallenges::new(&Challenges::new(answers, installed));
        assert_eq!(challenges.file(b"/.well-known/acme-challenge/tok-en_1"), Some("tok-en_1.key"));
        for other in [
            &b"/.well-known/acme-challenge/"[..],
            b"/.well-known/acme-challenge/tok-en_1/",
            b"/.well-known/acme-challenge/tok-en_1?x",
            b"/.well-known/acme-challenge/../acme-challenge/tok-en_1",
            b"/.Well-known/acme-challenge/tok-en_1",
            b"tok-en_1",
            b"/.well-known/acme-challenge/\xff",
            b"",
        ] {
            assert_eq!(challenges.file(other), None, "{}", String::from_utf8_lossy(other));
        }
        assert!(!ThreadChallenges::default().has_files());
    }
}
