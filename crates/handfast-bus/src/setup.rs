//! Writes a configuration of nats-server that is safe to expose: TLS, users, narrow permissions.
//!
//! In: a folder, the host that machines connect to, roles. Out: files for the server and for each role.
//! The CA's key is not stored: it signs only one certificate.

use std::fs::{self, DirBuilder, OpenOptions};
use std::io::Write;
use std::net::IpAddr;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use data_encoding::HEXLOWER;
use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
    KeyUsagePurpose, date_time_ymd,
};

use crate::error::Problem;
use crate::{BusError, check_fleet};

/// NATS's own port.
pub const PORT: u16 = 4222;
/// Validity of the certificates, in years.
const YEARS: i32 = 10;

/// One file to be written.
struct Written {
    name: String,
    text: String,
    secret: bool,
}

/// A folder of files for a server and its machines.
#[derive(Clone, Copy, Debug)]
pub struct Setup<'a> {
    /// Folder for the files.
    pub folder: &'a Path,
    /// Name or address that machines dial.
    pub host: &'a str,
    /// Its port.
    pub port: u16,
    /// The fleet's name.
    pub fleet: &'a str,
    /// The server's configuration, with marks where something is to be filled in: `@LISTEN@`, `@PORT@`, `@FOLDER@`, `@FLEET@`, and the
    /// password of each role by its name in capitals.
    pub template: &'a str,
    /// Users of the server, each with a separate password.
    pub roles: &'a [&'a str],
    /// Other files with secrets, each a name and a text.
    pub secrets: &'a [(&'static str, String)],
}

impl Setup<'_> {
    /// Writes `nats-server.conf`, `server.pem`, `server.key`, `ca.pem`, a file `ROLE.secret` for each role, and the other secrets;
    /// secret files have mode 0600. Answers with the folder's whole path.
    ///
    /// **Errors**: a host that is neither name nor address; a fleet with a name that subjects cannot have; a file that is already there;
    /// a folder that cannot be written.
    ///
    /// **Cost**: blocks for a few milliseconds.
    pub fn write(&self) -> Result<PathBuf, BusError> {
        check_fleet(self.fleet)?;
        let given = || self.folder.to_owned();
        DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(self.folder)
            .map_err(|source| Problem::MakeFolder { folder: given(), source })?;
        let folder = self.folder.canonicalize();
        let folder = folder.map_err(|source| Problem::Folder { folder: given(), source })?;
        let files = self.files(&folder)?;
        if let Some(there) = files.iter().find(|file| folder.join(&file.name).exists()) {
            return Err(Problem::NotOverwritten { folder: given(), file: there.name.clone() }.into());
        }
        for file in &files {
            write(&folder, file).map_err(|source| Problem::Write {
                folder: given(),
                file: file.name.clone(),
                source,
            })?;
        }
        Ok(folder)
    }

    /// The server as machines name it: `tls://host:port`.
    pub fn url(&self) -> String {
        let host = bare(self.host);
        let (open, close) = if host.contains(':') { ("[", "]") } else { ("", "") };
        format!("tls://{open}{host}{close}:{}", self.port)
    }

    fn files(&self, folder: &Path) -> Result<Vec<Written>, BusError> {
        let host = bare(self.host);
        let (ca, certificate, key) =
            certificates(host).map_err(|source| Problem::Certificate { host: host.to_owned(), source })?;
        let shown = folder.display().to_string();
        if shown.contains(['"', '\\', '\n']) {
            return Err(Problem::FolderName(shown).into());
        }
        let mut configuration = self
            .template
            .replace("@LISTEN@", &listen(host))
            .replace("@PORT@", &self.port.to_string())
            .replace("@FOLDER@", &shown)
            .replace("@FLEET@", self.fleet);
        let file = |name: &str, text, secret| Written { name: name.to_owned(), text, secret };
        let mut files = Vec::new();
        for role in self.roles {
            let password = password()?;
            configuration = configuration.replace(&format!("@{}@", role.to_uppercase()), &password);
            files.push(file(&format!("{role}.secret"), format!("{role}:{password}\n"), true));
        }
        files.extend([
            file("nats-server.conf", configuration, true),
            file("server.pem", certificate, false),
            file("server.key", key, true),
            file("ca.pem", ca, false),
        ]);
        files.extend(self.secrets.iter().map(|(name, text)| file(name, text.clone(), true)));
        Ok(files)
    }
}

/// An address without the brackets that it has in URLs.
fn bare(host: &str) -> &str {
    host.trim_start_matches('[').trim_end_matches(']')
}

/// Returns the listen address: the address itself, or for a name all of them.
fn listen(host: &str) -> String {
    host.parse::<IpAddr>().map_or_else(|_| "0.0.0.0".into(), |address| address.to_string())
}

/// 256 bits in hex. It begins with a letter: nats-server reads a bare `12e4…` as a number even between quotes of an
/// included file.
fn password() -> Result<String, BusError> {
    let mut bytes = [0; 32];
    aws_lc_rs::rand::fill(&mut bytes).map_err(|_| Problem::Random { purpose: "a password" })?;
    Ok(format!("p{}", HEXLOWER.encode(&bytes)))
}

/// The CA's certificate, the server's chain, and its key, all in PEM.
fn certificates(host: &str) -> Result<(String, String, String), rcgen::Error> {
    let mut names = vec!["localhost".to_owned(), "127.0.0.1".to_owned(), "::1".to_owned()];
    if !names.iter().any(|name| name == host) {
        names.push(host.to_owned());
    }
    let year = year();
    let dates = |params: &mut CertificateParams| {
        params.not_before = date_time_ymd(year - 1, 1, 1);
        params.not_after = date_time_ymd(year + YEARS, 1, 1);
    };
    let ca_key = KeyPair::generate()?;
    let mut ca = CertificateParams::new(Vec::new())?;
    dates(&mut ca);
    ca.distinguished_name.push(DnType::CommonName, "Handfast bus CA");
    ca.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
    ca.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
    let ca_certificate = ca.self_signed(&ca_key)?;

    let key = KeyPair::generate()?;
    let mut leaf = CertificateParams::new(names)?;
    dates(&mut leaf);
    leaf.distinguished_name.push(DnType::CommonName, "Handfast bus");
    leaf.is_ca = IsCa::ExplicitNoCa;
    leaf.key_usages = vec![KeyUsagePurpose::DigitalSignature];
    leaf.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
    leaf.use_authority_key_identifier_extension = true;
    let certificate = leaf.signed_by(&key, &Issuer::from_params(&ca, &ca_key))?;
    Ok((ca_certificate.pem(), certificate.pem(), key.serialize_pem()))
}

/// The year, by a clock that may be wrong: never one that a certificate cannot have.
fn year() -> i32 {
    let seconds = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
    // The mean Gregorian year has 31 556 952 seconds.
    1970 + i32::try_from(seconds / 31_556_952).unwrap_or(0).min(2000)
}

fn write(folder: &Path, file: &Written) -> std::io::Result<()> {
    let mode = if file.secret { 0o600 } else { 0o644 };
    let path = folder.join(&file.name);
    let mut opened = OpenOptions::new().write(true).create_new(true).mode(mode).open(&path)?;
    let written = opened.write_all(file.text.as_bytes()).and_then(|()| opened.sync_all());
    if written.is_err() {
        // Remove it, since a partial file would look complete. The result of the removal does not matter.
        let _ = fs::remove_file(&path);
    }
    written
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_listened_on_and_a_name_is_not_resolved() {
        assert_eq!(listen("10.0.0.5"), "10.0.0.5");
        assert_eq!(listen("::1"), "::1");
        assert_eq!(listen("bus.example"), "0.0.0.0");
    }
}
