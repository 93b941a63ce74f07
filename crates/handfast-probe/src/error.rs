//! Reason why a connection failed: the step, the cause in one word, the sentence, and a hint if there is one.

use std::fmt;

use handfast_leg::blocking::{self, Failed, Problem};
use handfast_net::fault::Cause;
use handfast_tls::session::FailureKind;
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

/// Reason for a failure.
#[derive(Clone, Debug, PartialEq, Eq, JsonSchema, Serialize)]
#[schemars(rename = "Trouble")]
pub struct ProbeError {
    /// Where.
    pub step: Step,
    /// The word for it, as in docs/diagnose/causes.md.
    pub cause: &'static str,
    /// The sentence.
    pub what: String,
    /// Instruction for the user.
    pub hint: Option<String>,
    /// We refused the server's certificate.
    #[serde(skip)]
    pub(crate) is_certificate: bool,
}

impl fmt::Display for ProbeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.what)?;
        match &self.hint {
            Some(hint) => write!(f, "\nhint: {hint}"),
            None => Ok(()),
        }
    }
}

impl ProbeError {
    /// One with its sentence.
    pub(crate) fn new(step: Step, cause: &'static str, what: impl Into<String>) -> Self {
        Self { step, cause, what: what.into(), hint: None, is_certificate: false }
    }

    /// The same with a hint.
    pub(crate) fn hint(self, hint: impl Into<String>) -> Self {
        Self { hint: Some(hint.into()), ..self }
    }

    /// A STARTTLS dialogue's.
    pub(crate) fn starttls(problem: &handfast_wire::starttls::Problem) -> Self {
        let error = Self::new(Step::Starttls, "starttls", format!("starttls: {problem}"));
        error.hint("check the port and the protocol given to --starttls")
    }

    fn with_cause(self, cause: &'static str, hint: Option<&str>) -> Self {
        Self { cause, hint: hint.map(str::to_owned), ..self }
    }
}

impl From<Failed> for ProbeError {
    fn from(failed: Failed) -> Self {
        let step = match failed.step {
            blocking::Step::Connect => Step::Connect,
            blocking::Step::Starttls => Step::Starttls,
            blocking::Step::Handshake => Step::Handshake,
            blocking::Step::Exchange => Step::Exchange,
        };
        let error = Self::new(step, "internal", failed.to_string());
        match &failed.problem {
            Problem::Socket(fault) => error.with_cause(fault.cause.name(), socket_hint(fault.cause)),
            Problem::Session(failure) => {
                let (cause, is_certificate) = match failure.kind {
                    FailureKind::Alert => ("alert", false),
                    FailureKind::Peer => ("tls", false),
                    FailureKind::PeerCertificate => ("certificate", true),
                    FailureKind::KeyProcess | FailureKind::Ourselves => ("internal", false),
                };
                Self { is_certificate, ..error.with_cause(cause, failure.hint) }
            }
            Problem::NotTls => {
                error.with_cause("not-tls", Some("TLS is on another port, 443 as a rule"))
            }
            Problem::Ended => error.with_cause("closed-early", (step == Step::Handshake).then_some(
                "a server that does not speak TLS on this port often does so; some want --sni or --starttls",
            )),
            Problem::Late => error.with_cause("deadline", Some("--timeout gives it longer")),
        }
    }
}

fn socket_hint(cause: Cause) -> Option<&'static str> {
    match cause {
        Cause::Refused => Some("nothing listens on this port: check the port, and whether the service runs"),
        Cause::ConnectTimedOut | Cause::ConnectTimeout => {
            Some("nothing came back: a firewall that drops packets, or a machine that is down")
        }
        Cause::Prohibited => Some("a firewall on the path rejects this connection"),
        _ => None,
    }
}
