//! Accounts that other ACME clients have left behind, so that orders go on under the account that issuers know: its rate limits, its
//! external binding, records in DNS that name it.
//!
//! In: a folder, searched with those below it. Out: for each issuer of the settings the account that was changed last.
//!
//! | client | the account's URL | its key |
//! |---|---|---|
//! | certbot | `uri` of `regr.json` | `private_key.json`, a JWK, mostly RSA |
//! | lego | `registration.uri` of `account.json` | a file of the folder `keys` there, PEM |
//! | acme.sh | `ACCOUNT_URL` of `ca.conf` | `account.key`, PEM |
//! | Caddy | `location` of `NAME.json` | `NAME.key`, PEM |
//! | Handfast | `account.id` or `url` | in the same file |
//!
//! File names count only where a folder has several of a kind. An account belongs to the issuer whose directory has the same host and port.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use data_encoding::BASE64URL_NOPAD;
use handfast_pki::files::read_text;
use rustls_pki_types::PrivateKeyDer;
use rustls_pki_types::pem::PemObject;
use serde_json::Value;

use super::folders;
use crate::error::Error;
use crate::issuer::store_account;
use crate::jws::AccountKey;
use crate::keeper::Keeper;
use crate::model::Settings;
use crate::store::Store;

/// Largest file that is read, and files of a folder.
const MAX_FILE_BYTES: u64 = 64 << 10;
const MAX_FILES: usize = 1_000;

/// An account that was found for an issuer.
#[derive(Debug)]
pub struct FoundAccount {
    /// The directory of the issuer.
    pub directory: String,
    /// The file that has its URL.
    pub file: PathBuf,
    url: String,
    key: AccountKey,
}

/// Values of an account in one file.
#[derive(Default)]
struct AccountValues {
    url: Option<String>,
    key: Option<AccountKey>,
}

/// Searches a folder for accounts with the issuers of the settings.
pub fn find_accounts(settings: &Settings, folder: &Path) -> Vec<FoundAccount> {
    let mut found: BTreeMap<String, (SystemTime, FoundAccount)> = BTreeMap::new();
    for folder in folders(folder) {
        for (file, url, key) in pairs(&folder) {
            let Some(directory) = directory_of(settings, &url) else { continue };
            let changed =
                fs::metadata(&file).and_then(|file| file.modified()).unwrap_or(SystemTime::UNIX_EPOCH);
            if found.get(&directory).is_none_or(|(known, _)| *known < changed) {
                let account = FoundAccount { directory: directory.clone(), file, url, key };
                found.insert(directory, (changed, account));
            }
        }
    }
    found.into_values().map(|(_, account)| account).collect()
}

impl FoundAccount {
    /// Returns true if the store has no account with this issuer.
    pub fn is_needed(&self, settings: &Settings) -> bool {
        let stored = Store::of(settings, None).account::<Value>(&self.directory);
        let has = |value: &Value, field: &str| value.get(field).is_some_and(|value| !value.is_null());
        stored
            .is_ok_and(|stored| stored.is_none_or(|stored| !has(&stored, "url") && !has(&stored, "account")))
    }

    /// Puts the key into the folder of keys.
    ///
    /// **Errors**: it cannot be written.
    pub fn keep(&self, keeper: &Keeper) -> Result<(), Error> {
        keeper.take_account(&self.directory, &self.key).map_err(Error::key)
    }

    /// Puts the account into the store; with its key, unless keys are in a separate folder.
    ///
    /// **Errors**: it cannot be written.
    pub fn put(&self, settings: &Settings) -> Result<(), Error> {
        let store = Store::of(settings, None);
        store.prepare()?;
        let key = settings.key_folder.is_none().then_some(&self.key);
        store_account(&store, &self.directory, &self.url, key)
    }
}

/// The accounts of a folder: file, URL and key.
fn pairs(folder: &Path) -> Vec<(PathBuf, String, AccountKey)> {
    let (mut urls, mut keys, mut pairs) = (Vec::new(), Vec::new(), Vec::new());
    for (file, AccountValues { url, key }) in account_values(folder) {
        match (url, key) {
            (Some(url), Some(key)) => pairs.push((file, url, key)),
            (Some(url), None) => urls.push((file, url)),
            (None, Some(key)) => keys.push((file, key)),
            (None, None) => {}
        }
    }
    if !urls.is_empty() && keys.is_empty() {
        let below = account_values(&folder.join("keys")).into_iter();
        keys.extend(below.filter_map(|(file, values)| Some((file, values.key?))));
    }
    let is_only = urls.len() == 1 && keys.len() == 1;
    for (file, url) in urls {
        let fits = |(key, _): &(PathBuf, AccountKey)| is_only || key.file_stem() == file.file_stem();
        if let Some(at) = keys.iter().position(fits) {
            pairs.push((file, url, keys.swap_remove(at).1));
        }
    }
    pairs
}

fn account_values(folder: &Path) -> Vec<(PathBuf, AccountValues)> {
    let Ok(entries) = fs::read_dir(folder) else { return Vec::new() };
    let mut files: Vec<_> = entries.flatten().map(|entry| entry.path()).take(MAX_FILES).collect();
    files.sort();
    files.into_iter().filter_map(|file| Some((file.clone(), of_text(&text(&file)?)))).collect()
}

fn text(file: &Path) -> Option<String> {
    read_text(file, MAX_FILE_BYTES).ok().map(|text| text.to_string())
}

fn of_text(text: &str) -> AccountValues {
    if let Ok(value) = serde_json::from_str::<Value>(text) {
        return of_json(&value);
    }
    let line =
        |line: &str| line.strip_prefix("ACCOUNT_URL=").map(|url| url.trim_matches(['\'', '"']).to_owned());
    // A key beside a certificate is not an account's.
    let is_key_alone = !text.contains("BEGIN CERTIFICATE");
    let key = PrivateKeyDer::from_pem_slice(text.as_bytes()).ok().filter(|_| is_key_alone);
    AccountValues {
        url: text.lines().find_map(line),
        key: key.and_then(|key| AccountKey::from_der(key.secret_der()).ok()),
    }
}

fn of_json(value: &Value) -> AccountValues {
    let text = |path: &str| value.pointer(path).and_then(Value::as_str).map(str::to_owned);
    let decoded = |path: &str| BASE64URL_NOPAD.decode(text(path)?.trim_end_matches('=').as_bytes()).ok();
    let url = ["/uri", "/registration/uri", "/location", "/account/id", "/url"].into_iter().find_map(text);
    let der = match text("/kty").as_deref() {
        Some("RSA") => rsa(&decoded),
        Some("EC") => ec(&decoded),
        _ => decoded("/account/key_pkcs8").or_else(|| decoded("/own_key")),
    };
    let key = der.and_then(|der| AccountKey::from_der(&der).ok());
    AccountValues { url: url.filter(|url| url.starts_with("https://")), key }
}

/// RSAPrivateKey (RFC 8017 §A.1.2) of a JWK (RFC 7518 §6.3.2).
fn rsa(decoded: &dyn Fn(&str) -> Option<Vec<u8>>) -> Option<Vec<u8>> {
    let mut content = der(2, &[0]);
    for name in ["/n", "/e", "/d", "/p", "/q", "/dp", "/dq", "/qi"] {
        let number = decoded(name)?;
        let first = number.iter().position(|byte| *byte != 0)?;
        let mut number = number[first..].to_vec();
        if number[0] & 0x80 != 0 {
            number.insert(0, 0);
        }
        content.extend(der(2, &number));
    }
    Some(der(0x30, &content))
}

/// ECPrivateKey (RFC 5915 §3) of a JWK (RFC 7518 §6.2.2).
fn ec(decoded: &dyn Fn(&str) -> Option<Vec<u8>>) -> Option<Vec<u8>> {
    let (x, y, d) = (decoded("/x")?, decoded("/y")?, decoded("/d")?);
    let curve: &[u8] = match x.len() {
        32 => &[0x2a, 0x86, 0x48, 0xce, 0x3d, 0x03, 0x01, 0x07],
        48 => &[0x2b, 0x81, 0x04, 0x00, 0x22],
        _ => return None,
    };
    let point = [&[0, 4][..], &x, &y].concat();
    let content = [der(2, &[1]), der(4, &d), der(0xa0, &der(6, curve)), der(0xa1, &der(3, &point))];
    Some(der(0x30, &content.concat()))
}

fn der(tag: u8, content: &[u8]) -> Vec<u8> {
    let length = content.len();
    let mut all = vec![tag];
    match length {
        0..0x80 => all.push(length as u8),
        0x80..0x100 => all.extend([0x81, length as u8]),
        _ => all.extend([0x82, (length >> 8) as u8, length as u8]),
    }
    all.extend_from_slice(content);
    all
}

/// The directory of the issuer that an account belongs to: its own or its staging one.
fn directory_of(settings: &Settings, url: &str) -> Option<String> {
    let directories =
        settings.issuers.iter().flat_map(|issuer| std::iter::once(&issuer.directory).chain(&issuer.staging));
    directories.into_iter().find(|directory| origin(directory) == origin(url)).cloned()
}

/// Host and port of a URL, in lower case.
fn origin(url: &str) -> Option<String> {
    let place = url.strip_prefix("https://")?.split(['/', '?', '#']).next()?.to_ascii_lowercase();
    Some(place.strip_suffix(":443").unwrap_or(&place).to_owned())
}

#[cfg(test)]
mod tests;
