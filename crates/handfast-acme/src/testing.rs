//! For tests: certificates, and a world in memory with a clock that can be set and an issuer that fails as a test
//! configures it.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::path::Path;
use std::rc::Rc;

use rcgen::{
    CertificateParams, CertificateSigningRequestParams, DistinguishedName, Issuer as Signer, KeyPair,
};

use crate::answers::Answers;
use crate::authority::{Authority, Challenge};
use crate::driver::World;
use crate::error::Error;
use crate::model::{ChallengeKind, Issuer, Settings};
use crate::name::Name;
use crate::status::{NameStatus, OrderEnd};

/// A moment in 2027.
pub(crate) const NOW: i64 = 1_800_000_000;

fn dates(params: &mut CertificateParams, from: i64, days: i64) {
    let since_1970 = |seconds: i64| {
        rcgen::date_time_ymd(1970, 1, 1) + std::time::Duration::from_secs(seconds.unsigned_abs())
    };
    params.not_before = since_1970(from);
    params.not_after = since_1970(from + days * 86_400 - 1);
}

/// A key and a certificate for a name, valid from `from` on, in PEM.
pub(crate) fn pair(name: &str, from: i64, days: i64) -> String {
    let key = KeyPair::generate().expect("a key");
    let mut params = CertificateParams::new(vec![name.to_owned()]).expect("a name");
    params.distinguished_name = DistinguishedName::new();
    dates(&mut params, from, days);
    key.serialize_pem() + &params.self_signed(&key).expect("signed").pem()
}

/// An order, as an issuer in memory knows it.
#[derive(Clone, Debug, Default)]
struct TestOrder {
    name: String,
    is_proven: bool,
    chain: Option<String>,
}

/// An issuer in memory, seen by all its clients.
#[derive(Debug, Default)]
pub(crate) struct Memory {
    orders: RefCell<BTreeMap<String, TestOrder>>,
    /// Orders by directory, with their times.
    pub(crate) made: RefCell<Vec<(String, i64)>>,
    pub(crate) issued: Cell<usize>,
    /// Names that cannot be proven.
    pub(crate) refused: RefCell<Vec<String>>,
    /// Directories that do not answer.
    pub(crate) down: RefCell<Vec<String>>,
    /// From this request to the first issuer on, what it sends makes the library panic.
    pub(crate) panics_from: Cell<Option<usize>>,
    requests: Cell<usize>,
    /// The window that it suggests, in seconds from the present.
    pub(crate) window: Cell<Option<(i64, i64)>>,
    pub(crate) revoked: Cell<usize>,
    /// Days of a certificate's life.
    pub(crate) days: Cell<i64>,
}

/// A world in memory.
#[derive(Debug, Default)]
pub(crate) struct InMemory {
    pub(crate) clock: Rc<Cell<i64>>,
    pub(crate) issuer: Rc<Memory>,
    pub(crate) answers: RefCell<Answers>,
    pub(crate) reported: RefCell<Vec<NameStatus>>,
    /// Calls of the program for DNS.
    pub(crate) records: RefCell<Vec<(bool, String)>>,
    /// True if another machine orders certificates for the same names.
    pub(crate) others_order: Cell<bool>,
    /// Reports to other machines about the ends of orders (`shared`: certificates for them).
    pub(crate) ended: RefCell<Vec<String>>,
    pub(crate) shared: RefCell<Vec<String>>,
}

impl Memory {
    fn receive(&self, directory: &str) {
        if directory.starts_with("first") {
            let number = self.requests.replace(self.requests.get() + 1);
            assert!(self.panics_from.get().is_none_or(|from| number < from), "provoked");
        }
    }
}

impl InMemory {
    pub(crate) fn new() -> Self {
        let world = Self::default();
        world.clock.set(NOW);
        world.issuer.days.set(90);
        world
    }

    /// A process that is started in the same world.
    pub(crate) fn again(&self) -> Self {
        Self { clock: Rc::clone(&self.clock), issuer: Rc::clone(&self.issuer), ..Self::default() }
    }
}

pub(crate) fn settings(folder: &Path, names: &[&str]) -> Settings {
    let issuer = |directory: &str, staging: Option<&str>| Issuer {
        directory: directory.to_owned(),
        staging: staging.map(str::to_owned),
        dns_name: Some("ca.example".to_owned()),
        ca: None,
        profile: None,
        external: None,
    };
    Settings {
        folder: folder.to_owned(),
        key_folder: None,
        issuers: vec![issuer("first", Some("first-staging")), issuer("second", None)],
        contact: Vec::new(),
        challenges: ChallengeKind::ALL.to_vec(),
        names: names.iter().map(|name| Name::parse(name).expect("a name")).collect(),
    }
}

/// An account with the issuer in memory.
pub(crate) struct Account {
    directory: String,
    clock: Rc<Cell<i64>>,
    issuer: Rc<Memory>,
    url: String,
}

/// Lets other tasks go on, as each request to an issuer does; a test can end the task here.
async fn round_trip() {
    tokio::task::yield_now().await;
}

impl Account {
    async fn known(&self) -> Result<TestOrder, Error> {
        round_trip().await;
        self.issuer.receive(&self.directory);
        if self.issuer.down.borrow().contains(&self.directory) {
            return Err(refusal("it does not answer"));
        }
        self.issuer.orders.borrow().get(&self.url).cloned().ok_or_else(|| refusal("no such order"))
    }

    fn put(&self, known: TestOrder) {
        self.issuer.orders.borrow_mut().insert(self.url.clone(), known);
    }
}

fn refusal(what: &str) -> Error {
    Error::Issuer { act: "ask", what: what.to_owned(), pause: None }
}

impl Authority for Account {
    async fn order(&mut self, name: &Name, _: Option<&[u8]>) -> Result<String, Error> {
        round_trip().await;
        self.issuer.receive(&self.directory);
        let number = self.issuer.made.borrow().len();
        self.url = format!("{}/{number}", self.directory);
        self.issuer.made.borrow_mut().push((self.directory.clone(), self.clock.get()));
        self.put(TestOrder { name: name.to_string(), ..TestOrder::default() });
        round_trip().await;
        Ok(self.url.clone())
    }

    async fn resume(&mut self, url: &str) -> Result<(), Error> {
        self.url = url.to_owned();
        self.known().await.map(drop)
    }

    async fn challenges(&mut self, kinds: &[ChallengeKind]) -> Result<Vec<Challenge>, Error> {
        let known = self.known().await?;
        let kind = *kinds.first().ok_or(Error::NoChallenge { offered: Vec::new() })?;
        let challenge =
            Challenge { kind, token: "token".into(), authorization: "token.key".into(), digest: vec![7; 32] };
        Ok(if known.is_proven { Vec::new() } else { vec![challenge] })
    }

    async fn verdict(&mut self, _: &[ChallengeKind]) -> Result<(), Error> {
        let mut known = self.known().await?;
        if self.issuer.refused.borrow().contains(&known.name) {
            return Err(refusal("it could not be proven"));
        }
        known.is_proven = true;
        self.put(known);
        round_trip().await;
        Ok(())
    }

    async fn finalize(&mut self, request: &[u8]) -> Result<(), Error> {
        let mut known = self.known().await?;
        if known.chain.is_none() {
            let key = KeyPair::generate().expect("a key");
            let mut request = CertificateSigningRequestParams::from_der(&request.into()).expect("a request");
            dates(&mut request.params, self.clock.get(), self.issuer.days.get());
            let ca = Signer::new(CertificateParams::new(Vec::new()).expect("no names"), key);
            known.chain = Some(request.signed_by(&ca).expect("signed").pem());
            self.issuer.issued.set(self.issuer.issued.get() + 1);
            self.put(known);
        }
        round_trip().await;
        Ok(())
    }

    async fn certificate(&mut self) -> Result<String, Error> {
        self.known().await?.chain.ok_or_else(|| refusal("not yet"))
    }
}

impl World for InMemory {
    type Account = Account;

    fn now(&self) -> i64 {
        self.clock.get()
    }

    fn random(&self) -> f64 {
        0.5
    }

    async fn open(&self, _: &Issuer, directory: &str) -> Result<Account, Error> {
        round_trip().await;
        self.issuer.receive(directory);
        if self.issuer.down.borrow().iter().any(|down| down == directory) {
            return Err(refusal("it does not answer"));
        }
        let (clock, issuer) = (Rc::clone(&self.clock), Rc::clone(&self.issuer));
        Ok(Account { directory: directory.to_owned(), clock, issuer, url: String::new() })
    }

    async fn suggestion(&self, account: &Account, _: &[u8]) -> Result<Option<((i64, i64), i64)>, Error> {
        self.issuer.receive(&account.directory);
        let now = self.clock.get();
        Ok(self.issuer.window.get().map(|(start, end)| ((now + start, now + end), 21_600)))
    }

    async fn revoke(&self, account: &Account, _: &[u8]) -> Result<(), Error> {
        self.issuer.receive(&account.directory);
        self.issuer.revoked.set(self.issuer.revoked.get() + 1);
        Ok(())
    }

    async fn publish(&self, answers: Answers) {
        round_trip().await;
        *self.answers.borrow_mut() = answers;
    }

    async fn record(&self, sets: bool, host: &str, _: &str) -> Result<(), crate::real::RecordError> {
        self.records.borrow_mut().push((sets, host.to_owned()));
        Ok(())
    }

    async fn may_order(&self, _: &Name) -> bool {
        round_trip().await;
        !self.others_order.get()
    }

    fn ended(&self, name: &Name, end: OrderEnd) {
        self.ended.borrow_mut().push(format!("{name} {end:?}").chars().take(40).collect());
    }

    fn share(&self, _: &Name, pem: String) {
        self.shared.borrow_mut().push(pem);
    }

    fn report(&self, names: Vec<NameStatus>) {
        *self.reported.borrow_mut() = names;
    }
}
