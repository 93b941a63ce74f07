//! The descriptor store of the service manager (`FDSTORE=1`, sd_pid_notify_with_fds(3)): it holds our listening sockets too, so that
//! clients that wait in one when this process is killed, or connect after that, are served by the next process.
//!
//! In: the sockets that workers accept from. Out: changes, so that the store has those and no others. The kernel goes on giving clients
//! to a stored socket that no process accepts from. So the name of each is derived from the socket itself, any process that holds the socket
//! can have it removed, and it is removed before the last process closes it.

use std::collections::BTreeSet;
use std::os::fd::OwnedFd;
use std::sync::Arc;

use rustix::net::sockopt::socket_cookie;

/// Distinguishes the names of stored sockets from those of a socket unit.
const PREFIX: &str = "handfast-kept-";
/// Sockets in the store: half of what this program accepts at a start.
const MAX_SOCKETS: usize = 512;

#[derive(Debug, Default)]
pub(super) struct DescriptorStore {
    /// The kernel's number of each socket (`SO_COOKIE`, socket(7)).
    cookies: BTreeSet<u64>,
}

/// A change of the store, to be sent.
#[derive(Debug)]
pub(super) enum Change {
    Add(String, Arc<OwnedFd>),
    Remove(String),
}

impl DescriptorStore {
    /// Returns true if a socket that was passed under this name at the start comes from the store; if so, it is
    /// recorded.
    pub(super) fn recognizes(&mut self, name: Option<&str>) -> bool {
        let cookie = name.and_then(|name| u64::from_str_radix(name.strip_prefix(PREFIX)?, 16).ok());
        self.cookies.extend(cookie);
        cookie.is_some()
    }

    pub(super) fn retain(&mut self, sockets: &[Arc<OwnedFd>]) -> Vec<Change> {
        let retained: BTreeSet<u64> =
            sockets.iter().filter_map(|socket| socket_cookie(socket).ok()).collect();
        let removed = self.cookies.extract_if(.., |cookie| !retained.contains(cookie));
        removed.map(|cookie| Change::Remove(name(cookie))).collect()
    }

    pub(super) fn add(&mut self, sockets: Vec<Arc<OwnedFd>>) -> Vec<Change> {
        let mut changes = Vec::new();
        for socket in sockets {
            let Ok(cookie) = socket_cookie(&socket) else { continue };
            if self.cookies.len() < MAX_SOCKETS && self.cookies.insert(cookie) {
                changes.push(Change::Add(name(cookie), socket));
            }
        }
        changes
    }
}

fn name(cookie: u64) -> String {
    format!("{PREFIX}{cookie:x}")
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use super::*;

    fn socket() -> Arc<OwnedFd> {
        Arc::new(TcpListener::bind("127.0.0.1:0").expect("loopback has a free port").into())
    }

    fn text(changes: &[Change]) -> Vec<String> {
        let text = |change: &Change| match change {
            Change::Add(name, _) => format!("+{name}"),
            Change::Remove(name) => format!("-{name}"),
        };
        changes.iter().map(text).collect()
    }

    #[test]
    fn each_is_added_once_and_removed_once() {
        let (one, other) = (socket(), socket());
        let name_of = |socket| name(socket_cookie(socket).expect("the kernel has one"));
        let mut store = DescriptorStore::default();
        let added = store.add(vec![Arc::clone(&one), Arc::clone(&other), Arc::clone(&one)]);
        assert_eq!(text(&added), [format!("+{}", name_of(&one)), format!("+{}", name_of(&other))]);
        assert!(store.add(vec![Arc::clone(&one)]).is_empty());
        assert!(store.retain(&[Arc::clone(&one), Arc::clone(&other)]).is_empty());
        assert_eq!(text(&store.retain(&[Arc::clone(&one)])), [format!("-{}", name_of(&other))]);
        assert_eq!(text(&store.retain(&[])), [format!("-{}", name_of(&one))]);
        assert!(store.retain(&[]).is_empty());
    }

    #[test]
    fn a_stored_socket_is_recognized_by_its_name() {
        let mut store = DescriptorStore::default();
        for foreign in [
            None,
            Some("web"),
            Some(""),
            Some(PREFIX),
            Some("handfast-kept-x"),
            Some("handfast-kept-1ffffffffffffffff"),
        ] {
            assert!(!store.recognizes(foreign), "{foreign:?}");
        }
        assert!(store.recognizes(Some("handfast-kept-1f")));
        assert_eq!(text(&store.retain(&[])), ["-handfast-kept-1f"]);
    }

    #[test]
    fn the_store_is_bounded() {
        let mut store =
            DescriptorStore { cookies: (0..MAX_SOCKETS as u64).map(|number| u64::MAX - number).collect() };
        assert!(store.add(vec![socket()]).is_empty());
    }
}
