//! Why a connection failed: the step, the cause in one word, the sentence, and a hint if there is one.

use std::fmt;

use handfast_net::fault::{Cause, Fault};
use handfast_tls::session::{Failure, FailureKind};
use handfast_wire::starttls::Problem;
use schemars::JsonSchema;
use serde::Serialize;

/// A step of a connection, as everywhere in this program.
#[derive(Clone, Copy, Debug, PartialEq, Eq, JsonSchema, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Step {
    /// Name resolution.
    Resolve,
    /// TCP.
    Connect,
    /// The plain-text protocol before TLS.
    Starttls,
    /// TLS, until data can be sent.
    Handshake,
    /// A request and its answer.
    Exchange,
}

impl Step {
    /// The word.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Resolve => "resolve",
            Self::Connect => "connect",
            Self::Starttls => "starttls",
            Self::Handshake => "handshake",
            Self::Exchange => "exchange",
        }
    }
}

/// Why it failed.
#[derive(Clone, Debug, PartialEq, Eq, JsonSchema, Serialize)]
pub struct Trouble {
    /// Where.
    pub step: Step,
    /// The word for it, as in docs/diagnose/causes.md.
    pub cause: &'static str,
    /// The sentence.
    pub what: String,
    /// What to do about it.
    pub hint: Option<String>,
    /// We refused the server's certificate.
    #[serde(skip)]
    pub(crate) is_certificate: bool,
}

impl fmt::Display for Trouble {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.what)?;
        match &self.hint {
            Some(hint) => write!(f, "\nhint: {hint}"),
            None => Ok(()),
        }
    }
}

impl Trouble {
    /// One with its sentence.
    pub(crate) fn new(step: Step, cause: &'static str, what: impl Into<String>) -> Self {
        Self { step, cause, what: what.into(), hint: None, is_certificate: false }
    }

    /// The same with a hint.
    pub(crate) fn hint(self, hint: impl Into<String>) -> Self {
        Self { hint: Some(hint.into()), ..self }
    }

    /// A socket's.
    pub(crate) fn socket(step: Step, fault: &Fault) -> Self {
        let call = fault.to_string();
        let what = match call.starts_with(step.name()) {
            true => call,
            false => format!("{}: {call}", step.name()),
        };
        let trouble = Self::new(step, fault.cause.name(), what);
        match fault.cause {
            Cause::Refused => {
                trouble.hint("nothing listens on this port: check the port, and whether the service runs")
            }
            Cause::ConnectTimedOut | Cause::ConnectDeadline => {
                trouble.hint("nothing came back: a firewall that drops packets, or a machine that is down")
            }
            Cause::Prohibited => trouble.hint("a firewall on the path rejects this connection"),
            _ => trouble,
        }
    }

    /// A session's.
    pub(crate) fn session(failure: &Failure) -> Self {
        let cause = match failure.kind {
            FailureKind::Alert => "alert",
            FailureKind::Peer => "tls",
            FailureKind::PeerCertificate => "certificate",
            FailureKind::KeyProcess | FailureKind::Ourselves => "internal",
        };
        let mut trouble = Self::new(Step::Handshake, cause, format!("handshake: {failure}"));
        trouble.hint = failure.hint.map(str::to_owned);
        trouble.is_certificate = failure.kind == FailureKind::PeerCertificate;
        trouble
    }

    /// A STARTTLS dialogue's.
    pub(crate) fn starttls(problem: &Problem) -> Self {
        let trouble = Self::new(Step::Starttls, "starttls", format!("starttls: {problem}"));
        trouble.hint("check the port and the protocol given to --starttls")
    }

    /// The target closed the connection during a step.
    pub(crate) fn ended(step: Step) -> Self {
        let what = format!("{}: the target ended the connection", step.name());
        let trouble = Self::new(step, "closed-early", what);
        match step {
            Step::Handshake => trouble.hint(
                "a server that does not speak TLS on this port often does so; some want --sni or --starttls",
            ),
            _ => trouble,
        }
    }

    /// The timeout passed.
    pub(crate) fn late(step: Step) -> Self {
        Self::new(step, "deadline", format!("{}: the timeout passed", step.name()))
            .hint("--timeout gives it longer")
    }
}
