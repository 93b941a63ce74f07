//! Certificates for this crate's tests: made by rcgen for speed, by the openssl program for the forms that others write.

use std::fs::{self, File};
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use rcgen::{BasicConstraints, CertificateParams, DnType, IsCa, Issuer, KeyPair, date_time_ymd};

/// Time within the validity of everything that [`Maker`] makes by default.
pub(crate) const NOW: i64 = 1_793_534_400; // 2026-11-01 12:00:00 UTC

/// Properties of the certificate to make.
pub(crate) struct Maker {
    pub(crate) names: Vec<String>,
    pub(crate) subject: &'static str,
    pub(crate) from: (i32, u8, u8),
    pub(crate) to: (i32, u8, u8),
    pub(crate) algorithm: &'static rcgen::SignatureAlgorithm,
    pub(crate) is_authority: bool,
}

/// A certificate and its key.
pub(crate) struct Made {
    pub(crate) params: CertificateParams,
    pub(crate) key: KeyPair,
    pub(crate) certificate: rcgen::Certificate,
}

impl Maker {
    pub(crate) fn new(names: &[&str]) -> Self {
        Self {
            names: names.iter().map(|name| (*name).to_owned()).collect(),
            subject: "a test",
            from: (2026, 1, 1),
            to: (2027, 1, 1),
            algorithm: &rcgen::PKCS_ECDSA_P256_SHA256,
            is_authority: false,
        }
    }

    pub(crate) fn authority(subject: &'static str) -> Self {
        Self { subject, is_authority: true, ..Self::new(&[]) }
    }

    pub(crate) fn valid(self, from: (i32, u8, u8), to: (i32, u8, u8)) -> Self {
        Self { from, to, ..self }
    }

    pub(crate) fn algorithm(self, algorithm: &'static rcgen::SignatureAlgorithm) -> Self {
        Self { algorithm, ..self }
    }

    fn params(&self) -> CertificateParams {
        let mut params = CertificateParams::new(self.names.clone()).unwrap();
        params.distinguished_name.push(DnType::CommonName, self.subject);
        params.not_before = date_time_ymd(self.from.0, self.from.1, self.from.2);
        params.not_after = date_time_ymd(self.to.0, self.to.1, self.to.2);
        if self.is_authority {
            params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        }
        params
    }

    pub(crate) fn self_signed(&self) -> Made {
        let key = KeyPair::generate_for(self.algorithm).unwrap();
        let params = self.params();
        let certificate = params.self_signed(&key).unwrap();
        Made { params, key, certificate }
    }

    pub(crate) fn signed_by(&self, issuer: &Made) -> Made {
        let key = KeyPair::generate_for(self.algorithm).unwrap();
        let params = self.params();
        let certificate = params.signed_by(&key, &Issuer::from_params(&issuer.params, &issuer.key)).unwrap();
        Made { params, key, certificate }
    }
}

impl Made {
    pub(crate) fn pem(&self) -> String {
        self.certificate.pem()
    }

    pub(crate) fn key_pem(&self) -> String {
        self.key.serialize_pem()
    }

    /// Both in one.
    pub(crate) fn both(&self) -> String {
        self.pem() + &self.key_pem()
    }
}

/// A folder with files that only their owner can read.
pub(crate) struct Folder(tempfile::TempDir);

impl Folder {
    pub(crate) fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    pub(crate) fn path(&self) -> &Path {
        self.0.path()
    }

    pub(crate) fn at(&self, name: &str) -> PathBuf {
        self.path().join(name)
    }

    pub(crate) fn put(&self, name: &str, content: impl AsRef<[u8]>) -> PathBuf {
        let path = self.at(name);
        let _ = fs::remove_file(&path);
        let mut file = File::options().write(true).create_new(true).mode(0o600).open(&path).unwrap();
        file.write_all(content.as_ref()).unwrap();
        path
    }

    /// Runs openssl in the folder. Files it makes get mode 0600.
    pub(crate) fn openssl(&self, arguments: &str) {
        let output = Command::new("sh")
            .current_dir(self.path())
            .args(["-c", &format!("umask 077; exec openssl {arguments}")])
            .output()
            .unwrap();
        assert!(output.status.success(), "{arguments}: {}", String::from_utf8_lossy(&output.stderr));
    }
}
