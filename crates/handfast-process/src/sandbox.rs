//! The sandbox that the process enters when it has bound its addresses and given up its privileges.
//!
//! In: the configuration, which names the files to read and write. Out: threads that access these files and no others, make the
//! system calls that serving takes and no others, and execute nothing; refusals, in the log; and the paths of a reload that
//! are out of reach. On a kernel without one of the parts the process serves without it, and logs that.
//!
//! Threads share their memory, so this bounds the effect of a vulnerability, and does not isolate threads from each other. One thread
//! stays outside: `upgrade/successor.rs`.

use std::collections::{BTreeSet, HashSet};
use std::os::fd::BorrowedFd;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use handfast_net::sys::sandbox::{
    Below, Duty, Refused, confine_calls, confine_files, give_up_privileges, receive_refusals, take_refused,
};
use tokio::io::unix::AsyncFd;

use crate::trusted_path::folder_of;
use crate::writable_files::own_files;
use handfast_config::model::Config;

/// Paths that every configuration may need: name resolution, authorities that the machine trusts, the kernel's files about the process.
const SYSTEM_PATHS: [&str; 15] = [
    "/proc",
    "/sys/devices/system/cpu",
    "/etc/resolv.conf",
    "/etc/hosts",
    "/etc/nsswitch.conf",
    "/etc/host.conf",
    "/etc/gai.conf",
    "/etc/services",
    "/etc/ssl/certs",
    "/etc/ssl/cert.pem",
    "/etc/pki",
    "/etc/ca-certificates",
    "/usr/lib/ssl",
    "/usr/share/ca-certificates",
    "/usr/local/share/ca-certificates",
];
/// Environment variables that name files of authorities (rustls-native-certs).
const PATH_VARIABLES: [&str; 2] = ["SSL_CERT_FILE", "SSL_CERT_DIR"];
/// Folders that are never allowed as a whole, only single files in them.
pub(crate) const NOT_WHOLE: [&str; 4] = ["/", "/dev", "/proc", "/proc/self/fd"];
/// Links that are followed for one path: the kernel's number (`MAXSYMLINKS`).
const MAX_LINKS: usize = 40;
const MAX_LOGGED_REFUSALS: usize = 64;
/// Paths out of reach that one message names.
const MAX_NAMED_PATHS: usize = 10;

/// True if threads of this process confine their system calls.
static CONFINED: AtomicBool = AtomicBool::new(false);

/// The files that the process uses.
#[derive(Clone, Debug, Default)]
pub struct Reach {
    /// Files that it reads, again when they are replaced.
    pub read: Vec<PathBuf>,
    /// Files that it writes, and sockets that it makes.
    pub write: Vec<PathBuf>,
    /// Folders that it reads with all that is in them.
    pub folders: Vec<PathBuf>,
}

/// The files that the process can access.
#[derive(Clone, Debug, Default)]
pub struct Sandbox {
    /// `None`: every file that its user may access.
    reach: Option<Arc<[Below]>>,
}

impl Sandbox {
    /// Enters the sandbox, with every thread that this one starts from now on. `abstract_too`: also denies abstract unix sockets, which
    /// only the service manager may need.
    pub fn enter(is_on: bool, reach: &Reach, abstract_too: bool) -> Self {
        handfast_net::dial::remember_ports();
        if !is_on {
            tracing::warn!(
                "no sandbox (process.sandbox = \"off\"): an attacker who exploits a vulnerability of this program could read every file that its \
                 user may, and execute programs"
            );
            return Self::default();
        }
        if let Err(error) = give_up_privileges() {
            tracing::warn!("sandbox: give up new privileges: {error}; served without");
        }
        let reach = below(reach);
        let confined = confine_files(&reach, abstract_too);
        if let Err(error) = &confined {
            tracing::warn!("sandbox: this kernel does not confine files (Landlock): {error}; served without");
        }
        if let Err(error) = receive_refusals().and_then(|listener| {
            confine_calls(Duty::Tends)?;
            CONFINED.store(true, Ordering::Relaxed);
            drop(tokio::task::spawn_local(log_refusals(listener)));
            Ok(())
        }) {
            tracing::warn!(
                "sandbox: this kernel does not confine system calls (seccomp): {error}; served without"
            );
        }
        let reach = reach.into_iter().map(|below| Below { path: real(&below.path), ..below });
        Self { reach: confined.is_ok().then(|| reach.collect()) }
    }

    /// Returns true if the process can access this path although it is in a sandbox.
    pub fn reaches(&self, path: &Path) -> bool {
        let path = real(path);
        self.reach.iter().flat_map(|reach| reach.iter()).any(|below| path.starts_with(real(&below.path)))
    }

    /// A message about paths that a configuration names, or that were read for it (`files`), and that this process cannot access, with
    /// the remedy; `None`: there are none.
    pub fn out_of_reach<'f>(
        &self,
        config: &'f Config,
        files: impl IntoIterator<Item = &'f PathBuf>,
    ) -> Option<String> {
        let reach = self.reach.as_ref()?;
        let reaches = |path: &Path, write: bool| {
            let path = real(path);
            reach.iter().any(|below| path.starts_with(&below.path) && (below.write || !write))
        };
        let needed = |path: &&PathBuf| !config.is_for_keys_alone(path);
        let named = config.places.paths().chain(files).filter(needed).map(|path| (path, false));
        let own = own_files(config);
        let missing: BTreeSet<_> = named
            .chain(own.iter().map(|path| (path, true)))
            .filter(|(path, write)| !reaches(path, *write))
            .map(|(path, _)| describe(path))
            .collect();
        let named: Vec<_> = missing.into_iter().take(MAX_NAMED_PATHS).collect();
        (!named.is_empty()).then(|| {
            format!(
                "out of reach of the sandbox, which was made for the configuration of the start: {}; restart, or `handfast upgrade`; \
                 process.sandbox-folders names folders that reloads may need, process.sandbox = \"off\" switches the sandbox off",
                named.join(", ")
            )
        })
    }
}

/// Confines this thread to the system calls for talking with peers, if this process is in its sandbox. Returns whether it is.
///
/// For threads that serve, and for threads that were started before and open no file.
pub fn confine_this_thread() -> bool {
    let confined = CONFINED.load(Ordering::Relaxed);
    // The kernel accepts no filter from a thread that may still gain privileges, as one that was started before the sandbox.
    let confine = || {
        rustix::thread::set_no_new_privs(true).map_err(Into::into).and_then(|()| confine_calls(Duty::Serves))
    };
    if confined && let Err(error) = confine() {
        tracing::warn!(
            "sandbox: confine a thread: {error}; it keeps access to more system calls than it needs"
        );
    }
    confined
}

/// Logs refusals, once for each call and kind of thread, for as long as the process lives.
async fn log_refusals(listener: BorrowedFd<'static>) {
    #[expect(
        deprecated,
        reason = "unsound only for types that lend a descriptor that closes; this one never does"
    )]
    let Ok(listener) = AsyncFd::new(listener) else { return };
    let mut logged = HashSet::new();
    while let Ok(mut ready) = listener.readable().await {
        log_new_refusals(&mut logged);
        ready.clear_ready();
    }
}

/// Logs the refusals that are not logged yet, at the end of a start that failed.
pub fn log_remaining_refusals() {
    log_new_refusals(&mut HashSet::new());
}

fn log_new_refusals(logged: &mut HashSet<Refused>) {
    for refused in take_refused() {
        if logged.len() < MAX_LOGGED_REFUSALS && logged.insert(refused.clone()) {
            tracing::warn!(
                "sandbox: refused {refused}, which failed with \"permission denied\" (logged once); if serving needs it, \
                 process.sandbox = \"off\" switches the sandbox off"
            );
        }
    }
}

/// The folders and files that the process reads and writes, so that it can also when they are replaced.
fn below(reach: &Reach) -> Vec<Below> {
    let mut below = BTreeSet::new();
    reach.read.iter().for_each(|path| folders_of(path, false, &mut below));
    reach.write.iter().for_each(|path| folders_of(path, true, &mut below));
    let variables = PATH_VARIABLES.into_iter().filter_map(std::env::var_os).map(PathBuf::from);
    let system = SYSTEM_PATHS.into_iter().map(PathBuf::from);
    let whole = reach.folders.iter().cloned().chain(variables).chain(system);
    below.extend(whole.map(|path| Below { path, write: false }));
    below.into_iter().collect()
}

/// Adds a file or folder, and the folders in which it, or a link that leads to it, may be replaced.
pub(crate) fn folders_of(path: &Path, write: bool, into: &mut BTreeSet<Below>) {
    let mut path = path.to_path_buf();
    for _ in 0..MAX_LINKS {
        into.insert(Below { path: path.clone(), write });
        let folder = folder_of(&path).to_path_buf();
        if !NOT_WHOLE.iter().any(|whole| real(&folder) == Path::new(whole)) && !path.is_dir() {
            into.insert(Below { path: folder.clone(), write });
        }
        let Ok(target) = std::fs::read_link(&path) else { return };
        path = folder.join(target);
    }
}

/// A path, and where it leads if it is a link.
fn describe(path: &Path) -> String {
    let real = real(path);
    if real == path {
        path.display().to_string()
    } else {
        format!("{}, which leads to {}", path.display(), real.display())
    }
}

/// The path without links, also of a file that does not exist in a folder that does.
pub(crate) fn real(path: &Path) -> PathBuf {
    let there = path.canonicalize().or_else(|_| {
        let folder = folder_of(path).canonicalize();
        folder.map(|folder| folder.join(path.file_name().unwrap_or_default()))
    });
    there.unwrap_or_else(|_| path.to_path_buf())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reached(path: &Path) -> Vec<PathBuf> {
        let mut into = BTreeSet::new();
        folders_of(path, false, &mut into);
        into.into_iter().map(|below| below.path).collect()
    }

    #[test]
    fn every_link_on_the_way_to_a_file_may_be_replaced() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let path = |name: &str| folder.path().join(name);
        std::fs::create_dir_all(path("archive")).expect("the folder is ours");
        std::fs::create_dir_all(path("live")).expect("the folder is ours");
        drop(std::fs::File::create(path("archive/web1.pem")).expect("the folder is ours"));
        std::os::unix::fs::symlink("../archive/web1.pem", path("live/web.pem")).expect("the folder is ours");
        let reached: Vec<_> = reached(&path("live/web.pem")).iter().map(|path| real(path)).collect();
        for expected in ["archive", "archive/web1.pem", "live"] {
            assert!(reached.contains(&real(&path(expected))), "{expected}: {reached:?}");
        }
        assert!(!reached.contains(&real(&path("."))), "no other file of the folder");
    }

    #[test]
    fn a_file_of_devices_is_reached_without_its_neighbours() {
        let reached = reached(Path::new("/dev/null"));
        assert_eq!(reached, [PathBuf::from("/dev/null")]);
    }

    #[test]
    fn what_a_reload_names_elsewhere_is_out_of_reach() {
        let folder = || tempfile::tempdir().expect("a temporary folder");
        let (inside, outside) = (folder(), folder());
        let sandbox = Sandbox { reach: Some(Arc::new([Below { path: real(inside.path()), write: false }])) };
        let mut config = Config::embedded(inside.path().join("ca.pem"));
        assert_eq!(sandbox.out_of_reach(&config, []), None);
        config.process.upgrade_socket = Some(inside.path().join("upgrade.sock"));
        let message = sandbox.out_of_reach(&config, []).expect("it cannot write there");
        assert!(message.contains("/upgrade.sock; restart, or"), "{message}");
        config.process.upgrade_socket = Some(outside.path().join("other.sock"));
        let message = sandbox.out_of_reach(&config, []).expect("it is outside");
        assert!(
            message.contains("/other.sock; restart, or") && !message.contains("/upgrade.sock"),
            "{message}"
        );
        assert_eq!(Sandbox::default().out_of_reach(&config, []), None, "no sandbox, no bounds");
    }
}
