//! Certificates that other ACME clients have left behind: certbot, lego, acme.sh, Caddy. `import/accounts.rs` has their accounts.
//!
//! In: a folder, searched with those below it; file names have no meaning, as certificates and keys are paired by their public keys. Out:
//! for each name the certificate that expires last, which is then put into the store; where private keys are in `key-folder`, its key
//! is put there first.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use handfast_pki::certificate::Certificate;
use handfast_pki::files::read_text;
use handfast_pki::load::{Source, load};
use handfast_pki::weak::Lists;

use crate::error::Error;
use crate::keeper::Keeper;
use crate::model::Settings;
use crate::name::Name;
use crate::store::Store;

mod accounts;

pub use accounts::{FoundAccount, find_accounts};

/// Folders below the one that is named, and folders in all, that are searched. Caddy's are three deep.
const DEEPEST: usize = 6;
const MAX_FOLDERS: usize = 10_000;
/// Bytes of a file of a certificate.
const MAX_CERTIFICATE_BYTES: u64 = 1 << 20;

/// A certificate that was found for a name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Found {
    /// The name.
    pub name: Name,
    /// Key and chain.
    pem: String,
    /// The file of the chain.
    pub file: PathBuf,
    /// Its last second, Unix time.
    pub not_after: i64,
}

/// Searches a folder for certificates of the names that are ordered.
pub fn find(settings: &Settings, folder: &Path) -> Vec<Found> {
    let mut found: BTreeMap<Name, Found> = BTreeMap::new();
    for folder in folders(folder) {
        let loaded = load(&[Source::Folder(folder)], &Lists::default(), SystemTime::now());
        for certificate in &loaded.certificates {
            for name in settings.names.iter().filter(|name| is_for(certificate, name)) {
                let is_later = found.get(name).is_none_or(|known| known.not_after < certificate.not_after());
                if is_later && let Some(one) = read(certificate, name) {
                    found.insert(name.clone(), one);
                }
            }
        }
    }
    found.into_values().collect()
}

/// Puts one into the store, unless the one there is as good; returns true if it did. If keys are in `key-folder`: see
/// [`keep`] and [`put_chain`].
///
/// **Errors**: it cannot be used, or not be written.
pub fn put(settings: &Settings, found: &Found, now: i64) -> Result<bool, Error> {
    let store = Store::of(settings, None);
    store.prepare()?;
    let Found { name, pem, .. } = found;
    if !is_later(&store, found, now) {
        return Ok(false);
    }
    store.reserve(name)?.install(pem, name, now).map(|()| true)
}

/// A certificate with its key, in PEM, that another machine has ordered. **Errors**: it cannot be used.
pub(crate) fn given(name: &Name, pem: String, now: i64) -> Result<Found, Error> {
    let file = PathBuf::from("(of another machine)");
    let (certificate, findings) = Certificate::from_pem(pem.as_bytes(), &file, now);
    let certificate = certificate.ok_or_else(|| Error::certificate(&findings))?;
    if !is_for(&certificate, name) {
        return Err(Error::OtherName { name: name.clone() });
    }
    Ok(Found { name: name.clone(), not_after: certificate.not_after(), pem, file })
}

/// Puts the key of one into the folder of keys, unless the certificate in the store is as good; whether it did.
///
/// **Errors**: it cannot be written.
pub fn keep(settings: &Settings, keeper: &Keeper, found: &Found, now: i64) -> Result<bool, Error> {
    if !is_later(&Store::of(settings, None), found, now) {
        return Ok(false);
    }
    let (keys, _) = parts(&found.pem);
    keeper.take(&found.name, &keys).map(|()| true).map_err(Error::key)
}

/// Puts the chain of one into the store. Its key was kept before, by a user that this one is not.
///
/// **Errors**: it cannot be written.
pub fn put_chain(settings: &Settings, found: &Found) -> Result<(), Error> {
    let store = Store::of(settings, None);
    store.prepare()?;
    store.reserve(&found.name)?.put(&parts(&found.pem).1)
}

fn is_later(store: &Store, found: &Found, now: i64) -> bool {
    store.certificate(&found.name, now).is_none_or(|stored| stored.life.not_after < found.not_after)
}

/// Private keys and the rest of a PEM text.
fn parts(pem: &str) -> (String, String) {
    let (mut keys, mut rest) = (String::new(), String::new());
    let mut is_key = false;
    for line in pem.lines() {
        is_key |= line.starts_with("-----BEGIN ") && line.contains("PRIVATE KEY");
        let part = if is_key { &mut keys } else { &mut rest };
        part.push_str(line);
        part.push('\n');
        is_key &= !line.starts_with("-----END ");
    }
    (keys, rest)
}

fn is_for(certificate: &Certificate, name: &Name) -> bool {
    match name.address() {
        Some(address) => certificate.ip_names().contains(&address),
        None => {
            let text = name.to_string();
            certificate.dns_names().iter().any(|known| **known == *text)
        }
    }
}

fn read(certificate: &Certificate, name: &Name) -> Option<Found> {
    let texts: Result<Vec<_>, _> =
        certificate.files().iter().map(|file| read_text(file, MAX_CERTIFICATE_BYTES)).collect();
    let file = certificate.files().first()?.clone();
    // A line end between two files that do not end with one.
    let pem = texts.ok()?.iter().map(|text| text.as_str()).collect::<Vec<_>>().join("\n");
    Some(Found { name: name.clone(), pem, file, not_after: certificate.not_after() })
}

/// The folder and those below it; links to folders are not followed.
fn folders(first: &Path) -> Vec<PathBuf> {
    let mut all = vec![(first.to_owned(), 0)];
    let mut at = 0;
    while let Some((folder, depth)) = all.get(at).cloned() {
        at += 1;
        if depth == DEEPEST || all.len() >= MAX_FOLDERS {
            continue;
        }
        let Ok(entries) = fs::read_dir(&folder) else { continue };
        let below = entries.flatten().filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()));
        all.extend(below.map(|entry| (entry.path(), depth + 1)));
    }
    all.into_iter().map(|(folder, _)| folder).collect()
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;
    use crate::testing::{pair, settings};

    fn write(path: &Path, text: &str) {
        fs::create_dir_all(path.parent().expect("it is in a folder")).expect("the folder is ours");
        fs::File::create(path)
            .and_then(|mut file| file.write_all(text.as_bytes()))
            .expect("the folder is ours");
    }

    #[test]
    fn certificates_of_four_clients_are_found_and_the_last_to_expire_is_taken() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let now = i64::try_from(
            SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).expect("after 1970").as_secs(),
        )
        .expect("seconds");
        let halves = |name: &str, days: i64| {
            let pem = pair(name, now - 60, days);
            let cut = pem.find("-----BEGIN CERTIFICATE").expect("there is one");
            (pem[..cut].to_owned(), pem[cut..].to_owned())
        };
        for (name, days, key_file, chain_file) in [
            ("a.example.org", 30, "certbot/archive/a/privkey1.pem", "certbot/archive/a/fullchain1.pem"),
            (
                "b.example.org",
                30,
                "lego/certificates/b.example.org.key",
                "lego/certificates/b.example.org.crt",
            ),
            (
                "c.example.org",
                30,
                "acme.sh/c.example.org_ecc/c.example.org.key",
                "acme.sh/c.example.org_ecc/fullchain.cer",
            ),
            (
                "c.example.org",
                60,
                "caddy/certificates/ca-directory/c/c.key",
                "caddy/certificates/ca-directory/c/c.crt",
            ),
            ("other.example.org", 30, "lego/certificates/o.key", "lego/certificates/o.crt"),
        ] {
            let (key, chain) = halves(name, days);
            write(&folder.path().join("old").join(key_file), &key);
            write(&folder.path().join("old").join(chain_file), &chain);
        }
        let live = folder.path().join("old/certbot/live/a");
        fs::create_dir_all(&live).expect("the folder is ours");
        for file in ["privkey", "fullchain"] {
            let target = format!("../../archive/a/{file}1.pem");
            std::os::unix::fs::symlink(target, live.join(format!("{file}.pem"))).expect("the folder is ours");
        }
        let expected = ["a.example.org", "b.example.org", "c.example.org", "d.example.org"];
        let settings = settings(&folder.path().join("store"), &expected);
        let found = find(&settings, &folder.path().join("old"));
        let names: Vec<_> = found.iter().map(|one| one.name.to_string()).collect();
        assert_eq!(names, expected[..3]);
        assert!(found[2].file.ends_with("c/c.crt"), "the one that expires last: {:?}", found[2].file);
        for one in &found {
            assert!(put(&settings, one, now).expect("it can be used"));
            assert!(!put(&settings, one, now).expect("it is there"), "only once");
        }
        let store = Store::new(&settings.folder);
        assert!(settings.names[..3].iter().all(|name| store.certificate(name, now).is_some()));
    }
}
