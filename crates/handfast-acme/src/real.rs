//! The driver's world as it is: this machine's clock, real issuers, the listeners of the process.

use std::pin::Pin;
use std::sync::Arc;
use std::time::SystemTime;

use handfast_pki::apart::Holder;

use crate::answers::Answers;
use crate::driver::World;
use crate::error::Error;
use crate::issuer::Connected;
use crate::model::{Issuer, Settings};
use crate::name::Name;
use crate::status::{NameStatus, OrderEnd};
use crate::store::Store;

/// Reason why a record in DNS cannot be set: the process around this crate has it.
pub type RecordError = Box<dyn std::error::Error + Send + Sync>;

/// The process that serves the certificates.
pub trait Host: Send + 'static {
    /// Gives these answers to every listener; done when all have them. An empty set takes the ones before back.
    fn publish(&self, answers: Answers) -> Pin<Box<dyn Future<Output = ()> + '_>>;

    /// Sets a TXT record in DNS, or removes it. **Errors**: why it cannot be.
    fn record(
        &self,
        sets: bool,
        host: String,
        value: String,
    ) -> Pin<Box<dyn Future<Output = Result<(), RecordError>> + '_>>;

    /// Returns true if this machine may order the certificate of a name now; another one may be doing it.
    fn may_order(&self, name: String) -> Pin<Box<dyn Future<Output = bool> + '_>>;

    /// Reports the outcome of an order that it was allowed.
    fn ended(&self, name: String, end: OrderEnd);

    /// A certificate in the store, with its key in PEM, for other machines.
    fn share(&self, name: String, pem: String);

    /// The key process, where private keys are not in this one.
    fn holder(&self) -> Option<Arc<dyn Holder>>;

    /// The state of all names.
    fn report(&self, names: Vec<NameStatus>);
}

pub(crate) struct Real<H> {
    pub(crate) settings: Settings,
    pub(crate) host: H,
}

impl<H: Host> World for Real<H> {
    type Account = Connected;

    fn now(&self) -> i64 {
        unix_now()
    }

    fn random(&self) -> f64 {
        let mut bytes = [0; 4];
        // Without a generator no TLS works either; the schedule does without.
        let _ = handfast_tls::random_bytes(&mut bytes);
        f64::from(u32::from_le_bytes(bytes)) / f64::from(u32::MAX)
    }

    async fn open(&self, issuer: &Issuer, directory: &str) -> Result<Connected, Error> {
        Connected::open(
            issuer,
            directory,
            &self.settings.contact,
            &Store::of(&self.settings, self.host.holder()),
        )
        .await
    }

    async fn suggestion(&self, account: &Connected, leaf: &[u8]) -> Result<Option<((i64, i64), i64)>, Error> {
        account.suggestion(leaf).await
    }

    async fn revoke(&self, account: &Connected, leaf: &[u8]) -> Result<(), Error> {
        account.revoke(leaf).await
    }

    async fn publish(&self, answers: Answers) {
        self.host.publish(answers).await;
    }

    async fn record(&self, sets: bool, host: &str, value: &str) -> Result<(), RecordError> {
        self.host.record(sets, host.to_owned(), value.to_owned()).await
    }

    async fn may_order(&self, name: &Name) -> bool {
        self.host.may_order(name.to_string()).await
    }

    fn ended(&self, name: &Name, end: OrderEnd) {
        self.host.ended(name.to_string(), end);
    }

    fn share(&self, name: &Name, pem: String) {
        self.host.share(name.to_string(), pem);
    }

    fn holder(&self) -> Option<Arc<dyn Holder>> {
        self.host.holder()
    }

    fn report(&self, names: Vec<NameStatus>) {
        self.host.report(names);
    }
}

/// Unix seconds.
pub(crate) fn unix_now() -> i64 {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_secs()).unwrap_or(i64::MAX)
}
