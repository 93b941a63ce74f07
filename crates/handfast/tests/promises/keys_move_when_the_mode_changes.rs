//! Keys move when the mode changes (`process.private-keys`): by `handfast upgrade` from the process that serves to a separate one, from
//! there to the next such one, and back, with sessions resumed and tunnels alive; and what held them before ends with its proxy. A
//! reload does not move them, and reports that.

use rustix::process::Signal;

use super::support::folder::Folder;
use super::support::key_process::{both, child, has_ended};
use super::support::secrets::{found_in, of_ec};
use super::support::upgrade::{config, upgrade};
use super::support::*;

/// The two modes.
const MODES: [&str; 2] = ["in-process", "separate-process"];

fn is_apart(proxy: &Proxy) -> bool {
    proxy.status()["key_process"].is_object()
}

#[test]
fn by_an_upgrade_with_the_configuration_changed_between() {
    let (folder, backend) = (Folder::new(), Backend::echo());
    let config = config(&folder, &backend);
    let mut first = Proxy::start(config.clone().text("process", "private-keys", MODES[0]));
    let address = first.address();
    let mut tunnels = vec![Client::connect(address, &Trust::version(Version::Tls13).config())];
    let trust = Trust::version(Version::Tls13).config();
    let resumed = || {
        let mut client = Client::connect(address, &trust);
        client.echo(b"across the modes");
        let resumed = client.resumed();
        client.finish();
        resumed
    };
    assert!(!resumed(), "the first cannot be");
    let secrets: Vec<_> = of_ec("the EC scalar", certificates::localhost()).collect();
    let (mut successors, mut before, mut past) = (Vec::new(), None, Vec::new());
    for apart in [true, true, false, true] {
        first.rewrite(config.clone().text("process", "private-keys", MODES[usize::from(apart)]));
        let new = upgrade(&first, &[]).unwrap_or_else(|why| panic!("to {apart}: {why}"));
        assert!(resumed(), "by the keys of the process before");
        let mut client = Client::connect(address, &Trust::version(Version::Tls13).forgetful().config());
        client.echo(b"in full");
        tunnels.push(client);
        assert_eq!(is_apart(&first), apart);
        assert_eq!(child(new.0, "key-supervisor").is_some(), apart);
        if rustix::process::geteuid().is_root() {
            let expected: &[&str] = if apart { &[] } else { &["the EC scalar"] };
            let mut found = found_in(new.0, &secrets);
            // A file's text may be gone from the memory of who may have it, or not.
            found.retain(|name| apart || *name != "PEM text");
            assert_eq!(found, expected, "in the process that serves, apart: {apart}");
        }
        for tunnel in &mut tunnels {
            tunnel.echo(b"one for each process until now");
        }
        if let Some((supervisor, keys)) = before.take() {
            assert!(!has_ended(supervisor) && !has_ended(keys), "its proxy still has a connection");
            past.push((supervisor, keys));
        }
        before = apart.then(|| both(new.0));
        successors.push(new);
    }
    past.extend(before);
    assert_eq!(past.len(), 3);
    tunnels.into_iter().for_each(Client::finish);
    assert_eq!(first.ended().code(), Some(0));
    for (supervisor, keys) in past.iter().take(2) {
        wait_until("the supervisor of a process before to end", || has_ended(*supervisor).then_some(()));
        wait_until("the key process of a process before to end", || has_ended(*keys).then_some(()));
    }
    successors.last().expect("there were some").0.signal(Signal::TERM);
    let (supervisor, keys) = past[2];
    wait_until("the last supervisor to end", || has_ended(supervisor).then_some(()));
    wait_until("the last key process to end", || has_ended(keys).then_some(()));
}

#[test]
fn a_reload_does_not_and_reports_it() {
    let (folder, backend) = (Folder::new(), Backend::echo());
    for (from, to) in [(0, 1), (1, 0)] {
        let proxy = Proxy::start(config(&folder, &backend).text("process", "private-keys", MODES[from]));
        proxy.rewrite(config(&folder, &backend).text("process", "private-keys", MODES[to]));
        assert!(!proxy.reload(), "it took effect only in part");
        proxy.talk.containing("process.private-keys");
        assert_eq!(is_apart(&proxy), from == 1, "it is as it was started");
        let mut client = Client::connect(proxy.address(), &Trust::version(Version::Tls13).config());
        client.echo(b"as before");
        client.finish();
        // Nor does the file, read again later, make another one of it.
        folder.replace("web.pem", certificates::localhost().combined());
        assert!(!proxy.reload(), "the mode is still not in effect");
        let mut client =
            Client::connect(proxy.address(), &Trust::version(Version::Tls13).forgetful().config());
        client.echo(b"with the file read again");
        client.finish();
        if rustix::process::geteuid().is_root() && from == 1 {
            let secrets: Vec<_> = of_ec("the EC scalar", certificates::localhost()).collect();
            assert_eq!(found_in(proxy.process(), &secrets), Vec::<&str>::new());
        }
    }
}
