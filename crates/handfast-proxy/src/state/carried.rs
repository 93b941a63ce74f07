//! What is carried from each state to the next: ticket keys, the throwaway certificate, the built-in backend.

#![expect(
    clippy::disallowed_types,
    reason = "what outlives a reload is locked while files are read, off the path"
)]

use std::fmt;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::SystemTime;

use handfast_tls::apart::Holder;
use handfast_tls::throwaway::{self, Throwaway};

use super::rings::KeyRings;
use handfast_config::model::{Address, CertificateSource, Config};
use handfast_process::key_process::KeyProcess;
use handfast_process::privileges::ServiceUser;

/// What outlives the states of a process, and each new one is made with.
#[derive(Debug)]
pub(crate) struct CarriedOver {
    pub(crate) rings: KeyRings,
    pub(crate) throwaway: Option<Arc<Throwaway>>,
    pub(crate) built_in: Option<Address>,
    pub(crate) threads: usize,
    /// Who holds the private keys, when it is another process.
    pub(crate) keys: Option<Arc<KeyProcess>>,
}

impl CarriedOver {
    /// Who reads files with keys, when it is not this process.
    pub(crate) fn holder(&self) -> Option<Arc<dyn Holder>> {
        self.keys.as_ref().map(|keys| Arc::clone(keys) as _)
    }
}

#[cfg(test)]
impl CarriedOver {
    /// Nothing yet, for a process with so many threads.
    pub(crate) fn with_threads(threads: usize) -> Self {
        Self { rings: KeyRings::default(), throwaway: None, built_in: None, threads, keys: None }
    }
}

/// The same, lent to the thread that reads files.
#[derive(Clone, Debug)]
pub(crate) struct SharedCarriedOver(Arc<Mutex<CarriedOver>>);

impl SharedCarriedOver {
    /// Owned by the control thread.
    pub(crate) fn new(carried: CarriedOver) -> Self {
        Self(Arc::new(Mutex::new(carried)))
    }

    /// For as long as files are read.
    pub(crate) fn lock(&self) -> MutexGuard<'_, CarriedOver> {
        // A reload that panicked leaves at worst a ring of keys that no service uses.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Without waiting; `None` while files are read.
    pub(crate) fn try_lock(&self) -> Option<MutexGuard<'_, CarriedOver>> {
        self.0.try_lock().ok()
    }
}

/// Why there is no throwaway certificate.
#[derive(Debug)]
pub(crate) enum ThrowawayError {
    /// It could not be made.
    Make(handfast_tls::Error),
    /// Its CA could not be written.
    Write { file: PathBuf, source: io::Error },
    /// The CA's file could not be written as the user that serves.
    Process(handfast_process::error::Error),
}

impl fmt::Display for ThrowawayError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Make(error) => error.fmt(f),
            Self::Write { file, source } => {
                write!(f, "write the throwaway CA to {}: {source}", file.display())
            }
            Self::Process(error) => error.fmt(f),
        }
    }
}

/// Makes the throwaway certificate if `config` asks for one and there is none yet, and writes its CA. A reload finds one, and could not write
/// from within the sandbox.
///
/// **Errors**: making it, or writing the CA's file.
pub(crate) fn make_throwaway(
    config: &Config,
    carried: &mut CarriedOver,
    now: SystemTime,
) -> Result<(), ThrowawayError> {
    let tls = config.services.iter().filter_map(|service| service.tls.as_ref());
    let sources = tls.flat_map(|tls| &tls.certificates);
    let is_known = carried.throwaway.is_some();
    for source in sources.filter(|_| !is_known) {
        let CertificateSource::Throwaway { ca_file } = source else { continue };
        if carried.throwaway.is_none() {
            carried.throwaway = Some(Arc::new(throwaway::make(None, now).map_err(ThrowawayError::Make)?));
        }
        if let Some(throwaway) = &carried.throwaway {
            let write = || write_aside(ca_file, &throwaway.ca_pem);
            ServiceUser::from(&config.process)
                .act_on(ca_file, write)
                .map_err(ThrowawayError::Process)?
                .map_err(|source| ThrowawayError::Write { file: ca_file.clone(), source })?;
        }
    }
    Ok(())
}

/// Writes a file that is never seen half written.
fn write_aside(path: &Path, text: &str) -> io::Result<()> {
    let mut name = path.as_os_str().to_owned();
    name.push(".new");
    let aside = PathBuf::from(name);
    std::fs::File::create(&aside)?.write_all(text.as_bytes())?;
    std::fs::rename(&aside, path)
}
