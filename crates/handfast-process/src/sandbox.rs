//! The sandbox that the process goes into when it has bound its addresses and given up its privileges.
//!
//! In: the configuration, which says what files there are to read and write. Out: threads that reach these and nothing else, make the
//! system calls that serving takes and no others, and execute nothing; what was refused, in the log; and what a reload wants that
//! is out of reach. A kernel without one of the parts is served on without it, which is said.
//!
//! Threads share their memory, so this bounds what a fault can do, and is no wall between threads. Who is let out: `upgrade/launcher.rs`.

use std::collections::{BTreeSet, HashSet};
use std::os::fd::BorrowedFd;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use handfast_net::sys::sandbox::{
    Below, Duty, Refused, confine_calls, confine_files, give_up_privileges, receive_refusals, take_refused,
};
use tokio::io::unix::AsyncFd;

use crate::writable_files::own_files;
use handfast_config::model::Config;

/// What every configuration may need: names, authorities that the machine trusts, what the kernel says of the process.
const OF_THE_MACHINE: [&str; 15] = [
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
/// Variables that name files of authorities (rustls-native-certs).
const OF_THE_ENVIRONMENT: [&str; 2] = ["SSL_CERT_FILE", "SSL_CERT_DIR"];
/// Files in these are reached alone, not with all that lies beside them.
pub(crate) const NOT_WHOLE: [&str; 4] = ["/", "/dev", "/proc", "/proc/self/fd"];
/// Links that lead to links: as many as the kernel follows (`MAXSYMLINKS`).
const LINKS: usize = 40;
/// So many different refusals are said.
const MOST_SAID: usize = 64;
/// So many paths out of reach are named.
const MOST_NAMED: usize = 10;

/// Whether the calls of threads are confined in this process.
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

/// What the process reaches.
#[derive(Clone, Debug, Default)]
pub struct Sandbox {
    /// `None`: every file that its user may.
    reach: Option<Arc<[Below]>>,
}

impl Sandbox {
    /// Goes into it, with every thread that is started from now on by this one. `abstract_too`: nobody is told anything over an
    /// abstract unix socket.
    pub fn enter(is_on: bool, reach: &Reach, abstract_too: bool) -> Self {
        handfast_net::dial::remember_ports();
        if !is_on {
            tracing::warn!(
                "no sandbox (process.sandbox = \"off\"): who finds a fault in this program could read every file that its user \
                 may, and execute programs"
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
        if let Err(error) = receive_refusals().and_then(|paper| {
            confine_calls(Duty::Tends)?;
            CONFINED.store(true, Ordering::Relaxed);
            drop(tokio::task::spawn_local(say_refused(paper)));
            Ok(())
        }) {
            tracing::warn!(
                "sandbox: this kernel does not confine system calls (seccomp): {error}; served without"
            );
        }
        let reach = reach.into_iter().map(|below| Below { path: real(&below.path), ..below });
        Self { reach: confined.is_ok().then(|| reach.collect()) }
    }

    /// What a configuration names, or was read for it (`files`), that this process does not reach, with the cure; `None` when there is
    /// nothing.
    pub fn beyond<'f>(
        &self,
        config: &'f Config,
        files: impl IntoIterator<Item = &'f PathBuf>,
    ) -> Option<String> {
        let reach = self.reach.as_ref()?;
        let reaches = |path: &Path, write: bool| {
            let path = real(path);
            reach.iter().any(|below| path.starts_with(&below.path) && (below.write || !write))
        };
        let named = config.places.paths().chain(files).map(|path| (path, false));
        let own = own_files(config);
        let beyond: BTreeSet<_> = named
            .chain(own.iter().map(|path| (path, true)))
            .filter(|(path, write)| !reaches(path, *write))
            .map(|(path, _)| leading(path))
            .collect();
        let named: Vec<_> = beyond.into_iter().take(MOST_NAMED).collect();
        (!named.is_empty()).then(|| {
            format!(
                "out of reach of the sandbox, which was made for the configuration of the start: {}; restart, or `handfast upgrade`; \
                 process.sandbox-folders names folders that reloads may need, process.sandbox = \"off\" switches the sandbox off",
                named.join(", ")
            )
        })
    }
}

/// Leaves the present thread only what talking with peers takes, if this process has gone into its sandbox: whether it has.
///
/// For threads that serve, and for those that were started before and open nothing.
pub fn confine_this_thread() -> bool {
    let confined = CONFINED.load(Ordering::Relaxed);
    // One that was started before may still gain privileges, and the kernel then takes no filter.
    let confine = || {
        rustix::thread::set_no_new_privs(true).map_err(Into::into).and_then(|()| confine_calls(Duty::Serves))
    };
    if confined && let Err(error) = confine() {
        tracing::warn!("sandbox: confine a thread: {error}; it goes on with more system calls than it needs");
    }
    confined
}

/// Says what was refused, once for each call and kind of thread; for as long as the process lives.
async fn say_refused(paper: BorrowedFd<'static>) {
    #[expect(
        deprecated,
        reason = "unsound only for types that lend a descriptor that closes; this one never does"
    )]
    let Ok(paper) = AsyncFd::new(paper) else { return };
    let mut said = HashSet::new();
    while let Ok(mut ready) = paper.readable().await {
        say_now(&mut said);
        ready.clear_ready();
    }
}

/// Says what was refused and nobody has said yet: at the end of a start that failed.
pub fn say_rest() {
    say_now(&mut HashSet::new());
}

fn say_now(said: &mut HashSet<Refused>) {
    for refused in take_refused() {
        if said.len() < MOST_SAID && said.insert(refused.clone()) {
            tracing::warn!(
                "sandbox: refused {refused}, which failed with \"permission denied\" (said once); if serving needs it, \
                 process.sandbox = \"off\" switches the sandbox off"
            );
        }
    }
}

/// Everything below which the process reads and writes, also when these files are replaced.
fn below(reach: &Reach) -> Vec<Below> {
    let mut below = BTreeSet::new();
    reach.read.iter().for_each(|path| folders_of(path, false, &mut below));
    reach.write.iter().for_each(|path| folders_of(path, true, &mut below));
    let variables = OF_THE_ENVIRONMENT.into_iter().filter_map(std::env::var_os).map(PathBuf::from);
    let machine = OF_THE_MACHINE.into_iter().map(PathBuf::from);
    let whole = reach.folders.iter().cloned().chain(variables).chain(machine);
    below.extend(whole.map(|path| Below { path, write: false }));
    below.into_iter().collect()
}

/// The folders in which a file, and every link that leads to it, may be replaced; and the file, or folder, itself.
pub(crate) fn folders_of(path: &Path, write: bool, into: &mut BTreeSet<Below>) {
    let mut path = path.to_path_buf();
    for _ in 0..LINKS {
        into.insert(Below { path: path.clone(), write });
        let folder = match path.parent() {
            Some(folder) if !folder.as_os_str().is_empty() => folder.to_path_buf(),
            _ => PathBuf::from("."),
        };
        if !NOT_WHOLE.iter().any(|whole| real(&folder) == Path::new(whole)) && !path.is_dir() {
            into.insert(Below { path: folder.clone(), write });
        }
        let Ok(target) = std::fs::read_link(&path) else { return };
        path = folder.join(target);
    }
}

/// A path, and where it leads if that is somewhere else.
fn leading(path: &Path) -> String {
    let real = real(path);
    if real == path {
        path.display().to_string()
    } else {
        format!("{}, which leads to {}", path.display(), real.display())
    }
}

/// Where a path leads, or would if the file were there.
pub(crate) fn real(path: &Path) -> PathBuf {
    let there = path.canonicalize().or_else(|_| {
        let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
        Ok::<_, std::io::Error>(
            folder.unwrap_or(Path::new(".")).canonicalize()?.join(path.file_name().unwrap_or_default()),
        )
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
        assert!(!reached.contains(&real(&path("."))), "nothing beside them");
    }

    #[test]
    fn a_file_of_devices_is_reached_without_its_neighbours() {
        let reached = reached(Path::new("/dev/null"));
        assert_eq!(reached, [PathBuf::from("/dev/null")]);
    }

    #[test]
    fn what_a_reload_names_elsewhere_is_beyond() {
        let folder = || tempfile::tempdir().expect("a temporary folder");
        let (inside, outside) = (folder(), folder());
        let sandbox = Sandbox { reach: Some(Arc::new([Below { path: real(inside.path()), write: false }])) };
        let mut config = Config::embedded(inside.path().join("ca.pem"));
        assert_eq!(sandbox.beyond(&config, []), None);
        config.process.upgrade_socket = Some(inside.path().join("upgrade.sock"));
        let said = sandbox.beyond(&config, []).expect("it cannot write there");
        assert!(said.contains("/upgrade.sock; restart, or"), "{said}");
        config.process.upgrade_socket = Some(outside.path().join("other.sock"));
        let said = sandbox.beyond(&config, []).expect("it is elsewhere");
        assert!(said.contains("/other.sock; restart, or") && !said.contains("/upgrade.sock"), "{said}");
        assert_eq!(Sandbox::default().beyond(&config, []), None, "no sandbox, no bounds");
    }
}
