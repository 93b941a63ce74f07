//! What is carried from each state to the next: ticket keys, the throwaway certificate, the built-in backend.

#![expect(
    clippy::disallowed_types,
    reason = "what outlives a reload is locked while files are read, off the path"
)]

use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::SystemTime;

use handfast_tls::apart::Holder;
use handfast_tls::throwaway::{self, Throwaway};

use super::rings::KeyRings;
use handfast_config::model::{Address, CertificateEntry, Config};
use handfast_process::key_process::KeyProcess;
use handfast_process::privileges::ServiceUser;

/// What outlives the states of a process, and each new one is made with.
#[derive(Debug, Default)]
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
        Self { threads, ..Self::default() }
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

/// Makes the throwaway certificate if `config` asks for one and there is none yet, and writes its CA. A reload finds one, and could not write
/// from within the sandbox.
///
/// **Errors**: making it, or writing the CA's file.
pub(crate) fn make_throwaway(
    config: &Config,
    carried: &mut CarriedOver,
    now: SystemTime,
) -> Result<(), String> {
    if carried.throwaway.is_some() {
        return Ok(());
    }
    let tls = config.services.iter().filter_map(|service| service.tls.as_ref());
    for source in tls.flat_map(|tls| &tls.certificates) {
        let CertificateEntry::Throwaway { ca_file } = source else { continue };
        let throwaway = match carried.throwaway.take() {
            Some(made) => made,
            None => Arc::new(throwaway::make(None, now).map_err(|error| error.to_string())?),
        };
        let write = || write_aside(ca_file, &throwaway.ca_pem);
        ServiceUser::from(&config.process)
            .try_on(ca_file, write)
            .map_err(|error| format!("write the throwaway CA to {}: {error}", ca_file.display()))?;
        carried.throwaway = Some(throwaway);
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
