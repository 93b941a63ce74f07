//! The one task that looks at every name, orders what is due, and reports.
//!
//! In: settings; requests of operators. Out: certificates in the store, answers to challenges, and the state of every name. One order at
//! a time. Only the process that holds the lock of the store orders; the others check every few seconds if it is free.

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet};
use std::future::poll_fn;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use handfast_pki::apart::Holder;
use handfast_pki::load::FileStamp;
use tokio::sync::mpsc::Receiver;
use tokio::time::{sleep, timeout};

use crate::answers::Answers;
use crate::authority::Authority;
use crate::error::Error;
use crate::import;
use crate::model::{ChallengeKind, Issuer, Settings};
use crate::name::Name;
use crate::order::{Job, Surroundings, obtain};
use crate::real::RecordError;
use crate::record::{OrderMade, Record};
use crate::schedule::{Decision, Facts, IssuerFacts, Life, decide, due, suggestion};
use crate::status::{NameStatus, OrderEnd, Request, RequestError};
use crate::store::{Store, Stored};

/// The longest pause between two looks at all names: the clock may have been set.
const MAX_WAIT: Duration = Duration::from_secs(600);
/// … and the shortest.
const MIN_WAIT: Duration = Duration::from_secs(1);
/// Interval between attempts of a process without the lock to take it.
const LOCK_RETRY_INTERVAL: Duration = Duration::from_secs(2);
/// Number of seconds without queries to any issuer, after a query for the time of renewal failed.
const QUERY_PAUSE_SECONDS: i64 = 3_600;
/// Delay before the next check of a name whose certificate another machine orders. **Units**: seconds.
const ORDERED_ELSEWHERE: i64 = 10;
/// Timeout for one try, with everything in it.
const TRY_TIMEOUT: Duration = Duration::from_secs(600);

/// Interface of the driver to the process around it.
pub(crate) trait World {
    /// An issuer's account.
    type Account: Authority;

    /// Unix seconds.
    fn now(&self) -> i64;
    /// A random number in 0..1.
    fn random(&self) -> f64;
    /// Opens an account at a directory of an issuer.
    async fn open(&self, issuer: &Issuer, directory: &str) -> Result<Self::Account, Error>;
    /// The window that the issuer suggests for a certificate (DER), and when to ask again.
    async fn suggestion(
        &self,
        account: &Self::Account,
        leaf: &[u8],
    ) -> Result<Option<((i64, i64), i64)>, Error>;
    /// Revokes a certificate (DER).
    async fn revoke(&self, account: &Self::Account, leaf: &[u8]) -> Result<(), Error>;
    /// Gives answers to all listeners, and returns when they have them.
    async fn publish(&self, answers: Answers);
    /// Sets a TXT record in DNS, or removes it.
    async fn record(&self, sets: bool, host: &str, value: &str) -> Result<(), RecordError>;
    /// Returns true if this machine may order the certificate of a name now; the answer comes within seconds.
    async fn may_order(&self, name: &Name) -> bool;
    /// Reports the outcome of an order that it was allowed.
    fn ended(&self, name: &Name, end: OrderEnd);
    /// Sends a certificate with its key, in PEM, to other machines.
    fn share(&self, name: &Name, pem: String);
    /// The key process, where private keys are not in this one.
    fn holder(&self) -> Option<Arc<dyn Holder>> {
        None
    }
    /// The state of all names has changed.
    fn report(&self, names: Vec<NameStatus>);
}

/// The task's values.
pub(crate) struct Driver<'w, W> {
    settings: Settings,
    store: Store,
    world: &'w W,
    records: RefCell<BTreeMap<Name, Record>>,
    /// Names whose records could not be written: those in memory are newer.
    unsaved: RefCell<BTreeSet<Name>>,
    /// Certificates as they were read last, by the stamps of their files.
    known: RefCell<BTreeMap<Name, (FileStamp, Option<Stored>)>>,
    /// Of each name, what spreads its renewals where the issuer suggests nothing.
    spread: BTreeMap<Name, f64>,
    /// Until then no issuer is asked when to renew.
    queries_from: Cell<i64>,
}

impl<'w, W: World> Driver<'w, W> {
    pub(crate) fn new(settings: Settings, world: &'w W) -> Self {
        let store = Store::of(&settings, world.holder());
        let spread = settings.names.iter().map(|name| (name.clone(), world.random())).collect();
        Self {
            settings,
            store,
            world,
            records: RefCell::default(),
            unsaved: RefCell::default(),
            known: RefCell::default(),
            spread,
            queries_from: Cell::new(0),
        }
    }

    /// Runs until it is dropped. **Cancel**: at any moment; the next one goes on with what was begun.
    pub(crate) async fn run(mut self, requests: &mut Receiver<Request>) {
        let _lock = self.locked(requests).await;
        loop {
            let wait = self.check_names(requests).await;
            tokio::select! {
                () = sleep(wait) => {}
                request = requests.recv() => match request {
                    Some(request) => {
                        self.answer(request).await;
                        self.answer_waiting(requests).await;
                    }
                    // No sender is left: the process ends.
                    None => return,
                },
            }
        }
    }

    /// Waits for the right to order.
    async fn locked(&self, requests: &mut Receiver<Request>) -> crate::store::StoreLock {
        let mut is_reported = false;
        loop {
            match self.store.prepare().and_then(|()| self.store.lock()) {
                Ok(Some(lock)) => return lock,
                Ok(None) => {
                    if !std::mem::replace(&mut is_reported, true) {
                        tracing::info!(
                            "acme: another process orders certificates for {}",
                            self.settings.folder.display()
                        );
                    }
                }
                Err(error) => {
                    if !std::mem::replace(&mut is_reported, true) {
                        tracing::error!("acme: {error}");
                    }
                }
            }
            self.read_records();
            self.report();
            let until_again = sleep(LOCK_RETRY_INTERVAL);
            tokio::pin!(until_again);
            loop {
                tokio::select! {
                    () = &mut until_again => break,
                    Some(request) = requests.recv() => {
                        request.refuse();
                    }
                }
            }
        }
    }

    fn read_records(&self) {
        let now = self.world.now();
        let mut records = self.records.borrow_mut();
        for name in self.settings.names.iter().filter(|name| !self.unsaved.borrow().contains(name)) {
            records.insert(name.clone(), self.store.record(name, now));
        }
    }

    /// Looks at every name once, and orders what is due; how long to wait until the next look.
    pub(crate) async fn check_names(&mut self, requests: &mut Receiver<Request>) -> Duration {
        self.read_records();
        let mut next = i64::MAX;
        for name in self.settings.names.clone() {
            self.query_renewal_info(&name).await;
            next = next.min(self.tend(&name, requests).await);
        }
        self.report();
        let wait = next.saturating_sub(self.world.now());
        Duration::from_secs(u64::try_from(wait).unwrap_or(0)).clamp(MIN_WAIT, MAX_WAIT)
    }

    fn record(&self, name: &Name) -> Record {
        self.records.borrow().get(name).cloned().unwrap_or_default()
    }

    /// Changes the record of a name, and stores it. **Errors**: it cannot be written; in memory it has changed.
    fn change(&self, name: &Name, change: impl FnOnce(&mut Record)) -> Result<(), Error> {
        let mut records = self.records.borrow_mut();
        let record = records.entry(name.clone()).or_default();
        change(record);
        let saved = self.store.save_record(name, record);
        match saved {
            Ok(()) => drop(self.unsaved.borrow_mut().remove(name)),
            Err(_) => drop(self.unsaved.borrow_mut().insert(name.clone())),
        }
        saved
    }

    fn own_moment(&self, name: &Name, life: Life) -> i64 {
        life.renewal(self.spread.get(name).copied().unwrap_or(0.0))
    }

    /// The certificate of a name; `None`: there is none that can be used. **Cost**: one system call while its file is unchanged.
    fn stored(&self, name: &Name) -> Option<Stored> {
        let now = self.world.now();
        let stamp = FileStamp::of(&self.store.certificate_file(name));
        let mut known = self.known.borrow_mut();
        let fresh = known.get(name).filter(|(before, _)| *before == stamp).is_none();
        if fresh {
            known.insert(name.clone(), (stamp, self.store.certificate(name, now)));
        }
        let stored = known.get(name).and_then(|(_, stored)| stored.clone());
        stored.filter(|stored| stored.life.contains(now))
    }

    fn all_orders(&self) -> Vec<OrderMade> {
        self.records.borrow().values().flat_map(|record| record.orders.iter().cloned()).collect()
    }

    fn decide(&self, name: &Name, stored: Option<&Stored>, all_orders: &[OrderMade]) -> Decision {
        let issuers: Vec<IssuerFacts<'_>> = self.settings.issuers.iter().map(facts_of).collect();
        let record = self.record(name);
        let certificate = stored.map(|stored| stored.life);
        let own_moment = certificate.map_or(i64::MIN, |life| self.own_moment(name, life));
        let facts = Facts { certificate, own_moment, record: &record, issuers: &issuers, all_orders };
        decide(&facts, self.world.now())
    }

    /// Orders what is due for a name; when to look at it again.
    async fn tend(&self, name: &Name, requests: &mut Receiver<Request>) -> i64 {
        // At most: a trial at staging, and then the order itself.
        for _ in 0..2 {
            let stored = self.stored(name);
            match self.decide(name, stored.as_ref(), &self.all_orders()) {
                Decision::Wait { until } => return until,
                Decision::Order { issuer, at_staging } => {
                    self.report();
                    if !self.world.may_order(name).await {
                        return self.world.now() + ORDERED_ELSEWHERE;
                    }
                    // The machine that has just ordered it sent it to the others before it let them order.
                    self.answer_waiting(requests).await;
                    if let Decision::Wait { until } =
                        self.decide(name, self.stored(name).as_ref(), &self.all_orders())
                    {
                        self.world.ended(name, OrderEnd::NotNeeded);
                        return until;
                    }
                    if !self.attempt(name, issuer, at_staging).await {
                        break;
                    }
                }
            }
        }
        self.record(name).earliest(self.world.now())
    }

    /// One try; whether it succeeded.
    async fn attempt(&self, name: &Name, issuer: usize, at_staging: bool) -> bool {
        let issuer = &self.settings.issuers[issuer];
        let directory = issuer.staging.as_ref().filter(|_| at_staging).unwrap_or(&issuer.directory);
        tracing::info!("acme: {name}: ordering a certificate at {directory}");
        let outcome = self.order(name, issuer, directory, at_staging).await;
        let now = self.world.now();
        let saved = match &outcome {
            Ok(()) if at_staging => self.change(name, |record| record.passed_staging(now)),
            Ok(()) => self.change(name, |record| record.succeeded(now)),
            Err(error) => {
                let (text, pause, random) = (error.to_string(), error.pause(), self.world.random());
                self.change(name, |record| record.failed(&text, pause, now, random))
            }
        };
        match outcome {
            Ok(()) if at_staging => tracing::info!("acme: {name}: the trial at {directory} succeeded"),
            Ok(()) => {
                tracing::info!("acme: {name}: new certificate from {directory}");
                self.world.ended(name, self.text(name).map_or(OrderEnd::NotNeeded, OrderEnd::Made));
            }
            Err(error) => {
                let record = self.record(name);
                let pause = u64::try_from(record.next_try.saturating_sub(now)).unwrap_or(0);
                let pause = Duration::from_secs(pause);
                self.world.ended(name, OrderEnd::Failed(pause));
                let pause = handfast_text::units::long(pause);
                tracing::error!(
                    "acme: {name}: no certificate from {directory}: {error}; failed {} times, next try in {pause}",
                    record.failures
                );
                for record in crate::dns_records::dns_records(&self.settings) {
                    tracing::info!("acme: the record for dns-persist-01: {record}");
                }
                return false;
            }
        }
        if let Err(error) = saved {
            tracing::error!("acme: {name}: {error}; it is remembered until this process ends");
        }
        true
    }

    async fn order(
        &self,
        name: &Name,
        issuer: &Issuer,
        directory: &str,
        is_trial: bool,
    ) -> Result<(), Error> {
        let now = self.world.now();
        self.change(name, |record| record.begins(now))?;
        let kinds = self.kinds(name);
        let around = OfDriver { driver: self, name, directory, records: RefCell::default() };
        let replaces = !is_trial && directory == self.settings.issuers[0].directory;
        let job = Job { store: &self.store, name, directory, is_trial, kinds: &kinds, replaces };
        let ordered = async {
            let mut account = self.world.open(issuer, directory).await?;
            obtain(&job, &mut account, &around).await
        };
        let outcome = bounded(ordered).await;
        if let Err(Error::Panic | Error::Late { .. }) = outcome {
            // The order was cut off in the middle: its answers are still published.
            around.withdraw().await;
        }
        if let Err(Error::Panic) = outcome {
            // The same order would lead to the same panic.
            self.store.forget_pending(name);
        }
        outcome
    }

    /// The challenges that fit a name. After each failure the next one is first: the other way may be open.
    fn kinds(&self, name: &Name) -> Vec<ChallengeKind> {
        let mut kinds: Vec<_> =
            self.settings.challenges.iter().copied().filter(|kind| kind.fits(name)).collect();
        if !kinds.is_empty() {
            let turns = self.record(name).failures as usize % kinds.len();
            kinds.rotate_left(turns);
        }
        kinds
    }

    /// Asks the issuer when to renew, where that is due.
    async fn query_renewal_info(&self, name: &Name) {
        let now = self.world.now();
        let Some(stored) = self.stored(name) else { return };
        let before = self.record(name).suggestion;
        let is_known =
            before.is_some_and(|known| known.not_after == stored.life.not_after && known.ask_again > now);
        if is_known
            || stored.life.emergency() <= now
            || (now..now + 2 * QUERY_PAUSE_SECONDS).contains(&self.queries_from.get())
        {
            return;
        }
        let issuer = &self.settings.issuers[0];
        let query = async {
            let account = self.world.open(issuer, &issuer.directory).await?;
            self.world.suggestion(&account, &stored.leaf).await
        };
        let made = match bounded(query).await {
            Ok(Some((window, again))) => {
                suggestion(stored.life, window, again, now, before, self.world.random())
            }
            failed => {
                if let Err(error) = failed {
                    tracing::debug!("acme: {name}: {error}");
                }
                self.queries_from.set(now + QUERY_PAUSE_SECONDS);
                None
            }
        };
        // The earlier suggestion stays: an issuer that is away for a day has not changed its decision.
        if let Some(made) = made
            && let Err(error) = self.change(name, |record| record.suggestion = Some(made))
        {
            tracing::error!("acme: {name}: {error}");
        }
    }

    async fn answer_waiting(&self, requests: &mut Receiver<Request>) {
        while let Ok(request) = requests.try_recv() {
            self.answer(request).await;
        }
    }

    /// Carries out what an operator or another machine asks for.
    async fn answer(&self, request: Request) {
        // The requester may have disconnected.
        match request {
            Request::Renew { name, reply } => {
                let _ = reply.send(self.known_name(&name).and_then(|name| self.renew(name)));
            }
            Request::Revoke { name, reply } => {
                let outcome = match self.known_name(&name) {
                    Ok(name) => self.revoke(name).await,
                    Err(unknown) => Err(unknown),
                };
                let _ = reply.send(outcome);
            }
            Request::Take { name, pem } => self.take(&name, pem),
            Request::Share => {
                for name in &self.settings.names {
                    if let Some(pem) = self.text(name) {
                        self.world.share(name, pem);
                    }
                }
            }
        }
    }

    fn known_name(&self, text: &str) -> Result<&Name, RequestError> {
        let names = &self.settings.names;
        names.iter().find(|name| name.to_string() == text).ok_or_else(|| RequestError::UnknownName {
            known: names.iter().map(ToString::to_string).collect(),
        })
    }

    /// Takes the certificate of another machine, if its name is ordered here and it expires later than the one there.
    fn take(&self, name: &str, pem: String) {
        if self.world.holder().is_some() {
            // Each machine has its own keys then.
            return;
        }
        let Ok(name) = self.known_name(name) else { return };
        let now = self.world.now();
        let taken = import::given(name, pem, now).and_then(|found| import::put(&self.settings, &found, now));
        match taken {
            Ok(true) => {
                tracing::info!("acme: {name}: new certificate from another machine");
                if let Err(error) = self.change(name, |record| record.succeeded(now)) {
                    tracing::error!("acme: {name}: {error}");
                }
            }
            Ok(false) => {}
            Err(error) => {
                tracing::warn!("acme: {name}: a certificate of another machine is not taken: {error}")
            }
        }
    }

    /// The certificate of a name that can be used, with its key, as it is in the store.
    fn text(&self, name: &Name) -> Option<String> {
        if self.world.holder().is_some() {
            return None;
        }
        self.stored(name)?;
        self.store.text(name)
    }

    fn renew(&self, name: &Name) -> Result<String, RequestError> {
        let ask = |record: &mut Record| {
            record.renew_now = true;
            record.next_try = 0;
        };
        self.change(name, ask)?;
        let stored = self.stored(name);
        match self.decide(name, stored.as_ref(), &self.all_orders()) {
            Decision::Wait { until } => {
                let wait = u64::try_from(until.saturating_sub(self.world.now())).unwrap_or(0);
                let wait = handfast_text::units::long(Duration::from_secs(wait));
                Ok(format!("{name}: the limits on orders allow the next one in {wait}; it is made then"))
            }
            Decision::Order { .. } => Ok(format!("{name}: a certificate is ordered now")),
        }
    }

    async fn revoke(&self, name: &Name) -> Result<String, RequestError> {
        let Some(stored) = self.stored(name) else {
            return Err(RequestError::NoCertificate(name.clone()));
        };
        let mut last = None;
        // The issuer is not remembered; the others answer that the certificate is not theirs.
        for issuer in &self.settings.issuers {
            let revoked = async {
                let account = self.world.open(issuer, &issuer.directory).await?;
                self.world.revoke(&account, &stored.leaf).await
            };
            match bounded(revoked).await {
                Ok(()) => {
                    tracing::warn!("acme: {name}: its certificate was revoked at {}", issuer.directory);
                    let next = self.renew(name)?;
                    return Ok(format!(
                        "{name}: the certificate is revoked, and served until the next one is there. {next}"
                    ));
                }
                Err(error) => last = Some((issuer.directory.clone(), error)),
            }
        }
        let (directory, source) = last.expect("a configuration that orders certificates has an issuer");
        Err(RequestError::NotRevoked { name: name.clone(), directory, source })
    }

    /// Publishes the state of all names.
    fn report(&self) {
        let now = self.world.now();
        let all_orders = self.all_orders();
        let of = |name: &Name| {
            let record = self.record(name);
            let stored = self.stored(name);
            let life = stored.as_ref().map(|stored| stored.life);
            let next = match self.decide(name, stored.as_ref(), &all_orders) {
                Decision::Wait { until } => until,
                Decision::Order { .. } => now,
            };
            let issuers: Vec<IssuerFacts<'_>> = self.settings.issuers.iter().map(facts_of).collect();
            let own_moment = life.map_or(now, |life| self.own_moment(name, life));
            let facts =
                Facts { certificate: life, own_moment, record: &record, issuers: &issuers, all_orders: &[] };
            NameStatus::of(name, life, &record, due(&facts).max(0), next)
        };
        self.world.report(self.settings.names.iter().map(of).collect());
    }
}

/// Runs requests to an issuer within the time of a try. A panic, which an answer may cause in a library, is a failure of the try:
/// it is recorded, and the next try comes after a pause and perhaps at another issuer.
async fn bounded<T>(requests: impl Future<Output = Result<T, Error>>) -> Result<T, Error> {
    let mut requests = pin!(requests);
    let caught = poll_fn(|context| {
        let polled = catch_unwind(AssertUnwindSafe(|| requests.as_mut().poll(context)));
        polled.unwrap_or(Poll::Ready(Err(Error::Panic)))
    });
    timeout(TRY_TIMEOUT, caught).await.unwrap_or(Err(Error::Late { seconds: TRY_TIMEOUT.as_secs() }))
}

fn facts_of(issuer: &Issuer) -> IssuerFacts<'_> {
    IssuerFacts { directory: &issuer.directory, staging: issuer.staging.as_deref() }
}

/// Part of the driver that an order uses.
struct OfDriver<'d, 'w, W> {
    driver: &'d Driver<'w, W>,
    name: &'d Name,
    directory: &'d str,
    /// Records in DNS that were set.
    records: RefCell<Vec<(String, String)>>,
}

impl<W: World> Surroundings for OfDriver<'_, '_, W> {
    fn now(&self) -> i64 {
        self.driver.world.now()
    }

    fn orders(&self) -> Result<(), Error> {
        let now = self.now();
        self.driver.change(self.name, |record| record.orders(self.directory, now))
    }

    async fn publish(&self, answers: Answers) {
        self.driver.world.publish(answers).await;
    }

    async fn set_record(&self, host: String, value: String) -> Result<(), Error> {
        // Also one that failed: it may have been set.
        self.records.borrow_mut().push((host.clone(), value.clone()));
        let outcome = self.driver.world.record(true, &host, &value).await;
        outcome.map_err(|source| Error::Record { host, source })
    }

    async fn withdraw(&self) {
        self.driver.world.publish(Answers::default()).await;
        let records = std::mem::take(&mut *self.records.borrow_mut());
        for (host, value) in records {
            if let Err(what) = self.driver.world.record(false, &host, &value).await {
                tracing::warn!("acme: {}: remove the record {host} by dns-command: {what}", self.name);
            }
        }
    }
}

#[cfg(test)]
mod tests;
