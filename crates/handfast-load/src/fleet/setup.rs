//! Writes a configuration of nats-server that is safe to expose: TLS, two users, narrow permissions.
//!
//! In: a folder, and the host that machines connect to. Out: files for the server and for each role, and the next commands.
//! The CA's key is not stored: it signs only one certificate.

use std::fs::{self, DirBuilder, OpenOptions};
use std::io::Write;
use std::net::IpAddr;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

use data_encoding::HEXLOWER;
use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
    KeyUsagePurpose, date_time_ymd,
};

use super::BusAddress;
use super::protocol::Subjects;
use crate::outcome::Refusal;

/// The configuration, with marks where something is to be filled in.
const CONFIGURATION: &str = include_str!("../../../../docs/load/nats-server.conf");
/// NATS's own port.
pub const PORT: u16 = 4222;
/// How long the certificates are valid, in years.
const YEARS: i32 = 10;

/// One file to be written.
struct Written {
    name: &'static str,
    text: String,
    secret: bool,
}

/// Writes a server's configuration into `folder`, for machines that dial `host` at `port` and belong to `fleet`; answers with
/// what to type next.
///
/// Files: `nats-server.conf`, `server.pem`, `server.key`, `ca.pem`, `coordinator.secret`, `worker.secret`; secret files
/// have mode 0600.
///
/// **Errors**: a host that is neither name nor address; a fleet with a name that subjects cannot have; a file that is already there; a folder that cannot be written.
///
/// **Cost**: blocks for a few milliseconds.
pub fn setup(folder: &Path, host: &str, port: u16, fleet: &str) -> Result<String, Refusal> {
    Subjects::new(fleet)?;
    let host = host.trim_start_matches('[').trim_end_matches(']');
    let failed = |what: String| Refusal::failed(format!("set up a bus in {}: {what}", folder.display()));
    DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(folder)
        .map_err(|error| failed(format!("make the folder: {error}")))?;
    let folder = folder.canonicalize().map_err(|error| failed(error.to_string()))?;
    let files = files(&folder, host, port, fleet)?;
    if let Some(there) = files.iter().find(|file| folder.join(file.name).exists()) {
        let what = format!("{} is there already, and is not overwritten", there.name);
        return Err(
            Refusal::wrong_use(failed(what).what).hint("give an empty folder, or remove the old files")
        );
    }
    for file in &files {
        write(&folder, file).map_err(|error| failed(format!("write {}: {error}", file.name)))?;
    }
    Ok(next(&folder, host, port, fleet))
}

fn files(folder: &Path, host: &str, port: u16, fleet: &str) -> Result<Vec<Written>, Refusal> {
    let (ca, certificate, key) = certificates(host)
        .map_err(|error| Refusal::wrong_use(format!("make a certificate for host {host:?}: {error}")))?;
    let (coordinator, worker) = (password()?, password()?);
    let shown = folder.display().to_string();
    if shown.contains(['"', '\\', '\n']) {
        return Err(Refusal::wrong_use(format!("folder {shown:?}: nats-server cannot read such a path")));
    }
    let configuration = CONFIGURATION
        .replace("@LISTEN@", &listen(host))
        .replace("@PORT@", &port.to_string())
        .replace("@FOLDER@", &shown)
        .replace("@FLEET@", fleet)
        .replace("@COORDINATOR@", &coordinator)
        .replace("@WORKER@", &worker);
    let file = |name, text, secret| Written { name, text, secret };
    Ok(vec![
        file("nats-server.conf", configuration, true),
        file("server.pem", certificate, false),
        file("server.key", key, true),
        file("ca.pem", ca, false),
        file("coordinator.secret", format!("coordinator:{coordinator}\n"), true),
        file("worker.secret", format!("worker:{worker}\n"), true),
    ])
}

/// Where to listen: on the address itself, or for a name on all of them.
fn listen(host: &str) -> String {
    host.parse::<IpAddr>().map_or_else(|_| "0.0.0.0".into(), |address| address.to_string())
}

/// 256 bits in hex. It begins with a letter: nats-server reads a bare `12e4…` as a number even between quotes of an
/// included file.
fn password() -> Result<String, Refusal> {
    let mut bytes = [0; 32];
    aws_lc_rs::rand::fill(&mut bytes)
        .map_err(|_| Refusal::failed("draw a password: the system has no random numbers"))?;
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
    let path = folder.join(file.name);
    let mut opened = OpenOptions::new().write(true).create_new(true).mode(mode).open(&path)?;
    let written = opened.write_all(file.text.as_bytes()).and_then(|()| opened.sync_all());
    if written.is_err() {
        // Remove it, since a partial file would look complete. The result of the removal does not matter.
        let _ = fs::remove_file(&path);
    }
    written
}

fn next(folder: &Path, host: &str, port: u16, fleet: &str) -> String {
    let fleet = match fleet == BusAddress::new("").fleet {
        true => String::new(),
        false => format!(" --fleet {fleet}"),
    };
    let host = if host.contains(':') { format!("[{host}]") } else { host.to_owned() };
    let folder = folder.display();
    format!(
        "Here:\n  \
           nats-server -c {folder}/nats-server.conf\n\
         On every machine that makes load, with copies of ca.pem and worker.secret:\n  \
           handfast worker tls://{host}:{port}{fleet} --bus-ca ca.pem --bus-credentials worker.secret\n\
         Where the run is started, for example with two machines:\n  \
           handfast load TARGET --workers tls://{host}:{port}{fleet} --machines 2 --bus-ca {folder}/ca.pem \
           --bus-credentials {folder}/coordinator.secret\n"
    )
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn everything_is_filled_in_and_what_is_secret_is_kept() {
        let parent = tempfile::tempdir().unwrap();
        let folder = parent.path().join("bus");
        let next = setup(&folder, "bus.example", 14_222, "blue").unwrap();
        assert_eq!(next.matches("tls://bus.example:14222 --fleet blue ").count(), 2, "{next}");
        let read = |name: &str| fs::read_to_string(folder.join(name)).unwrap();
        let mode = |name: &str| fs::metadata(folder.join(name)).unwrap().permissions().mode() & 0o777;
        let configuration = read("nats-server.conf");
        let lines = configuration.lines().filter(|line| !line.starts_with('#'));
        assert!(!lines.collect::<String>().contains('@'), "{configuration}");
        assert!(
            configuration.contains("hf.blue.c.>") && !configuration.contains("hf.default."),
            "{configuration}"
        );
        assert!(configuration.contains("port: 14222\n"), "{configuration}");
        for secret in ["nats-server.conf", "server.key", "coordinator.secret", "worker.secret"] {
            assert_eq!(mode(secret), 0o600, "{secret}");
        }
        let password = read("worker.secret").trim().strip_prefix("worker:").unwrap().to_owned();
        assert!(password.len() > 60 && configuration.contains(&password));
        assert_ne!(read("coordinator.secret").split(':').nth(1), Some(password.as_str()));
    }

    #[test]
    fn a_fleet_that_no_subject_can_have_leaves_nothing_behind() {
        let parent = tempfile::tempdir().unwrap();
        let folder = parent.path().join("bus");
        assert!(setup(&folder, "bus.example", PORT, "a.>").unwrap_err().wrong_use);
        assert!(!folder.exists());
    }

    #[test]
    fn nothing_is_overwritten() {
        let folder = tempfile::tempdir().unwrap();
        setup(folder.path(), "10.0.0.5", PORT, "default").unwrap();
        let before = fs::read_to_string(folder.path().join("worker.secret")).unwrap();
        let refusal = setup(folder.path(), "10.0.0.5", PORT, "default").unwrap_err();
        assert!(refusal.wrong_use && refusal.what.contains("not overwritten"), "{refusal}");
        assert_eq!(before, fs::read_to_string(folder.path().join("worker.secret")).unwrap());
    }

    #[test]
    fn an_address_is_listened_on_and_a_name_is_not_resolved() {
        assert_eq!(listen("10.0.0.5"), "10.0.0.5", "default");
        assert_eq!(listen("::1"), "::1");
        assert_eq!(listen("bus.example"), "0.0.0.0");
        assert!(next(Path::new("/d"), "::1", PORT, "default").contains("tls://[::1]:4222"));
    }
}
