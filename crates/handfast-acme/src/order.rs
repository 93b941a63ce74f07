//! One order, from the first request to the file that is served.
//!
//! In: a name, an issuer, the store. Out: a new certificate in the store, or the reason why not; the old one is untouched until the new
//! one has been tried.
//!
//! ```text
//!  room on the disk ─ order ─ challenges ─ answers ─ verdict ─ finalize ─ certificate ─ tried ─ in place
//!                       │                                          │
//!                       └ its URL and key are stored first, so that a process that was killed goes on with the same order
//! ```

use data_encoding::BASE64URL_NOPAD;

use crate::answers::Answers;
use crate::authority::Authority;
use crate::error::Error;
use crate::keys::OrderKey;
use crate::model::ChallengeKind;
use crate::name::Name;
use crate::store::{Pending, Reserved, Store};

/// Certificate to order, and its issuer.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Job<'a> {
    pub(crate) store: &'a Store,
    pub(crate) name: &'a Name,
    pub(crate) directory: &'a str,
    /// True if it is a trial: the certificate is not stored.
    pub(crate) is_trial: bool,
    pub(crate) kinds: &'a [ChallengeKind],
    /// True if the order names the certificate that this one replaces.
    pub(crate) replaces: bool,
}

/// The rest of the process, as an order sees it.
pub(crate) trait Surroundings {
    /// Unix seconds.
    fn now(&self) -> i64;

    /// An order is about to be sent, and must be remembered before. **Errors**: it cannot be.
    fn orders(&self) -> Result<(), Error>;

    /// Gives these answers to every listener. Returns when all have them.
    async fn publish(&self, answers: Answers);

    /// Sets a TXT record in DNS. **Errors**: it cannot be.
    async fn set_record(&self, host: String, value: String) -> Result<(), Error>;

    /// Takes answers and records back.
    async fn withdraw(&self);
}

/// Orders a certificate and puts it in place.
///
/// **Cancel**: leaves the order in the store; the next call goes on with it.
pub(crate) async fn obtain(
    job: &Job<'_>,
    authority: &mut impl Authority,
    around: &impl Surroundings,
) -> Result<(), Error> {
    let room = job.store.reserve(job.name)?;
    let outcome = run(job, authority, around).await;
    around.withdraw().await;
    let (chain, key) = match outcome {
        Ok(pair) => pair,
        Err(error) => {
            room.release();
            return Err(error);
        }
    };
    finish(job, room, &format!("{key}{chain}"), around.now())
}

fn finish(job: &Job<'_>, room: Reserved, pem: &str, now: i64) -> Result<(), Error> {
    if job.is_trial {
        room.release();
        return Ok(());
    }
    let installed = room.install(pem, job.name, now);
    // Also one that cannot be used: the same order would give it again.
    job.store.forget_pending(job.name);
    installed
}

/// All steps; returns the chain and what comes before it in the file, in PEM.
async fn run(
    job: &Job<'_>,
    authority: &mut impl Authority,
    around: &impl Surroundings,
) -> Result<(String, String), Error> {
    let key = match resumed(job, authority).await {
        Some(key) => key,
        None => begin(job, authority, around).await?,
    };
    let outcome = carry_on(job, authority, around, &key).await;
    if matches!(outcome, Err(Error::Issuer { .. } | Error::NoChallenge { .. })) {
        // The issuer has refused, and would again.
        job.store.forget_pending(job.name);
    }
    outcome.map(|chain| (chain, key.before_chain()))
}

/// Goes on with an order that was begun earlier, if there is one; the key of its certificate.
async fn resumed(job: &Job<'_>, authority: &mut impl Authority) -> Option<OrderKey> {
    let pending = job.store.pending(job.name).filter(|_| !job.is_trial)?;
    let key = OrderKey::stored(job.store.keys(), &pending.key).filter(|_| pending.directory == job.directory);
    let resumed = match key {
        Some(key) => authority.resume(&pending.url).await.ok().map(|()| key),
        None => None,
    };
    if resumed.is_none() {
        job.store.forget_pending(job.name);
    }
    resumed
}

async fn begin(
    job: &Job<'_>,
    authority: &mut impl Authority,
    around: &impl Surroundings,
) -> Result<OrderKey, Error> {
    let present = job.store.certificate(job.name, around.now());
    let in_use = present.as_ref().and_then(|stored| stored.key_id.clone());
    let key = OrderKey::make(job.store.keys(), job.name, in_use)?;
    let present = present.filter(|_| job.replaces);
    around.orders()?;
    let url = authority.order(job.name, present.as_ref().map(|stored| &stored.leaf[..])).await?;
    if !job.is_trial {
        let directory = job.directory.to_owned();
        job.store.save_pending(job.name, &Pending { directory, url, key: key.to_store() })?;
    }
    Ok(key)
}

async fn carry_on(
    job: &Job<'_>,
    authority: &mut impl Authority,
    around: &impl Surroundings,
    key: &OrderKey,
) -> Result<String, Error> {
    let challenges = authority.challenges(job.kinds).await?;
    if !challenges.is_empty() {
        let mut answers = Answers::default();
        for challenge in &challenges {
            match challenge.kind {
                ChallengeKind::Http01 => answers.add_file(&challenge.token, &challenge.authorization),
                ChallengeKind::TlsAlpn01 => {
                    answers.add_certificate(job.name, &challenge.digest, around.now())?;
                }
                // A person has set the record.
                ChallengeKind::DnsPersist01 => {}
                ChallengeKind::Dns01 => {
                    let text = job.name.to_string();
                    let host = format!("_acme-challenge.{}", text.strip_prefix("*.").unwrap_or(&text));
                    around.set_record(host, BASE64URL_NOPAD.encode(&challenge.digest)).await?;
                }
            }
        }
        around.publish(answers).await;
    }
    authority.verdict(job.kinds).await?;
    authority.finalize(&key.request(job.name)?).await?;
    authority.certificate().await
}
