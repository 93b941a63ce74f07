//! The state of each name, as it is reported; and what operators ask for.

use std::time::Duration;

use tokio::sync::oneshot;

use crate::name::Name;
use crate::record::Record;
use crate::schedule::Life;

/// The state of one name.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NameStatus {
    /// The name.
    pub name: String,
    /// The last second of its certificate, Unix time; `None`: there is none that can be used.
    pub not_after: Option<i64>,
    /// Time when the certificate is due to be renewed.
    pub due: i64,
    /// Time of the next order.
    pub next_try: i64,
    /// Time of the last one; `None`: never.
    pub last_try: Option<i64>,
    /// Reason why it failed; `None`: it has not.
    pub last_error: Option<String>,
    /// Tries that failed since the last success.
    pub failures: u32,
    /// Orders of the last days.
    pub orders: usize,
}

impl NameStatus {
    pub(crate) fn of(name: &Name, life: Option<Life>, record: &Record, due: i64, next_try: i64) -> Self {
        Self {
            name: name.to_string(),
            not_after: life.map(|life| life.not_after),
            due,
            next_try,
            last_try: record.last_try,
            last_error: record.last_error.clone(),
            failures: record.failures,
            orders: record.orders.len(),
        }
    }
}

/// Reason why a request of an operator is not carried out.
#[derive(Debug, thiserror::Error)]
pub enum RequestError {
    /// The thread that orders is ending, or has too many requests that wait.
    #[error("the program is ending, or busy with earlier requests")]
    Busy,
    /// No thread orders certificates.
    #[error("no certificate is ordered by this proxy, see [acme]")]
    NothingOrdered,
    /// Another process has the lock of the store.
    #[error("another process orders certificates for this store; ask that one")]
    OtherProcess,
    /// The name is not ordered.
    #[error("no certificate is ordered for this name; there is: {}", .known.join(", "))]
    UnknownName {
        /// Names that are ordered.
        known: Vec<String>,
    },
    /// The request cannot be stored.
    #[error(transparent)]
    Store(#[from] crate::Error),
    /// There is no certificate to revoke.
    #[error("{0}: the store has no certificate that is valid")]
    NoCertificate(Name),
    /// No issuer revoked the certificate.
    #[error("{name}: not revoked: {directory}: {source}")]
    NotRevoked {
        /// The name.
        name: Name,
        /// The directory of the last issuer.
        directory: String,
        /// Its answer.
        source: crate::Error,
    },
}

/// Request of an operator; the answer is text for a person.
#[derive(Debug)]
pub enum Request {
    /// A new certificate, within the limits.
    Renew {
        /// For this name.
        name: String,
        /// Channel for the answer.
        reply: oneshot::Sender<Result<String, RequestError>>,
    },
    /// To revoke the present certificate, and to order a new one.
    Revoke {
        /// For this name.
        name: String,
        /// Channel for the answer.
        reply: oneshot::Sender<Result<String, RequestError>>,
    },
    /// To take a certificate that another machine has ordered, if it is better than the one there.
    Take {
        /// For this name.
        name: String,
        /// Certificate and key, in PEM.
        pem: String,
    },
    /// Sends all certificates to other machines.
    Share,
}

impl Request {
    /// Answers that another process has to be asked.
    pub(crate) fn refuse(self) {
        match self {
            // The requester may have disconnected.
            Self::Renew { reply, .. } | Self::Revoke { reply, .. } => {
                drop(reply.send(Err(RequestError::OtherProcess)));
            }
            Self::Take { .. } | Self::Share => {}
        }
    }
}

/// Outcome of an order, for other machines with the same names.
#[derive(Debug)]
pub enum OrderEnd {
    /// The name has this certificate and key, in PEM.
    Made(String),
    /// It failed, and is tried again after this time.
    Failed(Duration),
    /// It was not needed any more.
    NotNeeded,
}
