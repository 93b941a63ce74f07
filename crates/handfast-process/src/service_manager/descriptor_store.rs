//! The service manager keeps our listening sockets too (`FDSTORE=1`, sd_pid_notify_with_fds(3)), so that who waits in one, or connects
//! after this process was killed, is served by the next process.
//!
//! In: the sockets that are accepted from. Out: what to say, so that those and no others are kept. A socket that is kept and that nobody
//! accepts from takes clients without an end, for the kernel goes on choosing it: so each has a name that follows from the socket
//! itself, whoever holds it can have it let go, and it is let go before its last holder closes it.

use std::collections::BTreeSet;
use std::os::fd::OwnedFd;
use std::sync::Arc;

use rustix::net::sockopt::socket_cookie;

/// What the names begin with that tell such a socket from those of a socket unit.
const PREFIX: &str = "handfast-kept-";
/// So many are kept at most. Half of what is taken at a start.
const MOST: usize = 512;

/// Which sockets the service manager keeps, by the kernel's number for each (`SO_COOKIE`, socket(7)).
#[derive(Debug, Default)]
pub(super) struct Keeping(BTreeSet<u64>);

/// What to say.
#[derive(Debug)]
pub(super) enum Say {
    /// To keep it.
    Keep(String, Arc<OwnedFd>),
    /// To close it.
    LetGo(String),
}

impl Keeping {
    /// A socket of this name was passed at the start; whether it was kept since another process of ours.
    pub(super) fn was_passed(&mut self, name: Option<&str>) -> bool {
        let number = name.and_then(|name| u64::from_str_radix(name.strip_prefix(PREFIX)?, 16).ok());
        self.0.extend(number);
        number.is_some()
    }

    /// None but these are to be kept any longer.
    pub(super) fn let_go_of_all_but(&mut self, sockets: &[Arc<OwnedFd>]) -> Vec<Say> {
        let wanted: BTreeSet<u64> = sockets.iter().filter_map(|socket| socket_cookie(socket).ok()).collect();
        self.0
            .extract_if(.., |known| !wanted.contains(known))
            .map(|number| Say::LetGo(name(number)))
            .collect()
    }

    /// These are to be kept, too.
    pub(super) fn keep(&mut self, sockets: Vec<Arc<OwnedFd>>) -> Vec<Say> {
        let mut said = Vec::new();
        for socket in sockets {
            let Ok(number) = socket_cookie(&socket) else { continue };
            if self.0.len() < MOST && self.0.insert(number) {
                said.push(Say::Keep(name(number), socket));
            }
        }
        said
    }
}

fn name(number: u64) -> String {
    format!("{PREFIX}{number:x}")
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use super::*;

    fn socket() -> Arc<OwnedFd> {
        Arc::new(TcpListener::bind("127.0.0.1:0").expect("loopback has a free port").into())
    }

    fn words(said: &[Say]) -> Vec<String> {
        let word = |said: &Say| match said {
            Say::Keep(name, _) => format!("+{name}"),
            Say::LetGo(name) => format!("-{name}"),
        };
        said.iter().map(word).collect()
    }

    #[test]
    fn each_is_kept_once_and_let_go_once() {
        let (one, other) = (socket(), socket());
        let name_of = |socket| name(socket_cookie(socket).expect("the kernel has one"));
        let mut keeping = Keeping::default();
        let kept = keeping.keep(vec![Arc::clone(&one), Arc::clone(&other), Arc::clone(&one)]);
        assert_eq!(words(&kept), [format!("+{}", name_of(&one)), format!("+{}", name_of(&other))]);
        assert!(keeping.keep(vec![Arc::clone(&one)]).is_empty());
        assert!(keeping.let_go_of_all_but(&[Arc::clone(&one), Arc::clone(&other)]).is_empty());
        assert_eq!(words(&keeping.let_go_of_all_but(&[Arc::clone(&one)])), [format!("-{}", name_of(&other))]);
        assert_eq!(words(&keeping.let_go_of_all_but(&[])), [format!("-{}", name_of(&one))]);
        assert!(keeping.let_go_of_all_but(&[]).is_empty());
    }

    #[test]
    fn what_was_kept_is_known_by_its_name() {
        let mut keeping = Keeping::default();
        for foreign in [
            None,
            Some("web"),
            Some(""),
            Some(PREFIX),
            Some("handfast-kept-x"),
            Some("handfast-kept-1ffffffffffffffff"),
        ] {
            assert!(!keeping.was_passed(foreign), "{foreign:?}");
        }
        assert!(keeping.was_passed(Some("handfast-kept-1f")));
        assert_eq!(words(&keeping.let_go_of_all_but(&[])), ["-handfast-kept-1f"]);
    }

    #[test]
    fn there_is_an_end() {
        let mut keeping = Keeping((0..MOST as u64).map(|number| u64::MAX - number).collect());
        assert!(keeping.keep(vec![socket()]).is_empty());
    }
}
