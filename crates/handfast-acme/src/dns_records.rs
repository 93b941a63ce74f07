//! The records in DNS that prove names by `dns-persist-01`.

use crate::model::{ChallengeKind, Settings};
use crate::store::Store;

/// Bytes of an account's URL, which an issuer chooses, in a record.
const MAX_URL_BYTES: usize = 500;

/// The records in DNS that prove the names by `dns-persist-01`, a line for each; accounts that were not made yet have none.
pub fn dns_records(settings: &Settings) -> Vec<String> {
    let store = Store::of(settings, None);
    let kind = ChallengeKind::DnsPersist01;
    if !settings.challenges.contains(&kind) {
        return Vec::new();
    }
    let mut records = Vec::new();
    for issuer in &settings.issuers {
        let account = store.account::<serde_json::Value>(&issuer.directory).ok().flatten();
        let url = account.as_ref().and_then(|account| {
            account.get("url").or_else(|| account.get("account")?.get("id")).and_then(|url| url.as_str())
        });
        let url =
            url.filter(|url| url.len() <= MAX_URL_BYTES && url.bytes().all(|byte| byte.is_ascii_graphic()));
        let (Some(url), Some(issuer_name)) = (url, &issuer.dns_name) else { continue };
        for name in settings.names.iter().filter(|name| kind.fits(name)) {
            let text = name.to_string();
            let (host, policy) = match text.strip_prefix("*.") {
                Some(below) => (below, "; policy=wildcard"),
                None => (&*text, ""),
            };
            records.push(format!(
                "_validation-persist.{host}. IN TXT \"{issuer_name}; accounturi={url}{policy}\""
            ));
        }
    }
    records.dedup();
    records
}
