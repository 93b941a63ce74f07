//! Certificates of the handshake's servers: a short one, and one with a chain that does not fit the first flight.

use std::fs::File;
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;

use rcgen::{BasicConstraints, CertificateParams, CustomExtension, DnType, IsCa, Issuer, KeyPair};

use super::servers::{NAME, path};
use crate::error::LabError;

/// Bytes that each of the two intermediate certificates is made larger by: the chain is 20 kB then, where 10 segments carry 14 kB.
const PADDING: usize = 9_000;
/// An arc for examples (RFC 7229 uses the like): no program acts on it.
const EXTENSION: [u64; 9] = [1, 3, 6, 1, 4, 1, 32_473, 1, 1];

/// Writes them where servers find them: `leaf.pem`, `leaf.key`, `long.pem`, `chain.pem` (the certificates above the leaf), and
/// `leaf-and-key.pem`, `long-and-key.pem` for who wants both in one file. They end with the lab.
pub(super) fn write() -> Result<(), LabError> {
    let files = make().map_err(|error| LabError::Late {
        what: format!("make certificates: {error}"),
        hint: "this is a fault of the lab".to_owned(),
    })?;
    for (name, text) in files {
        let file = path(name);
        File::options()
            .write(true)
            .create(true)
            .truncate(true)
            .mode(0o600)
            .open(&file)
            .and_then(|mut made| made.write_all(text.as_bytes()))
            .map_err(LabError::file(format!("write {file}")))?;
    }
    Ok(())
}

fn make() -> Result<Vec<(&'static str, String)>, rcgen::Error> {
    let leaf_of = |issuer: &Issuer<'_, KeyPair>, key: &KeyPair| {
        let params = CertificateParams::new(vec![NAME.to_owned()])?;
        params.signed_by(key, issuer)
    };
    let root_key = KeyPair::generate()?;
    let root = authority("Handfast lab", 0)?;
    let root = Issuer::new(root, root_key);
    let key = KeyPair::generate()?;
    let leaf = leaf_of(&root, &key)?.pem();

    let mut above = root;
    let mut chain = String::new();
    for name in ["Handfast lab, first intermediate", "Handfast lab, second intermediate"] {
        let key = KeyPair::generate()?;
        let params = authority(name, PADDING)?;
        let certificate = params.signed_by(&key, &above)?;
        chain = format!("{}{chain}", certificate.pem());
        above = Issuer::new(params, key);
    }
    let long = leaf_of(&above, &key)?.pem();
    let key = key.serialize_pem();
    Ok(vec![
        ("leaf-and-key.pem", format!("{leaf}{key}")),
        ("long-and-key.pem", format!("{long}{chain}{key}")),
        ("long-leaf.pem", long.clone()),
        ("long.pem", format!("{long}{chain}")),
        ("leaf.pem", leaf),
        ("leaf.key", key),
        ("chain.pem", chain),
    ])
}

fn authority(name: &str, padding: usize) -> Result<CertificateParams, rcgen::Error> {
    let mut params = CertificateParams::new(Vec::new())?;
    params.distinguished_name.push(DnType::CommonName, name);
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    if padding > 0 {
        // Random, so that it cannot be compressed; an OCTET STRING.
        let mut random = handfast_stats::random::Random::new(padding as u64);
        let mut content = vec![0x04, 0x82];
        content.extend_from_slice(&(padding as u16).to_be_bytes());
        content.extend((0..padding).map(|_| random.next() as u8));
        params.custom_extensions.push(CustomExtension::from_oid_content(&EXTENSION, content));
    }
    Ok(params)
}
