//! A network for a unit test: of its thread alone, which works for root; for other users the test is reported as skipped. In: the test.

use handfast_testkit::skip;
use nix::sched::{CloneFlags, unshare};

use crate::host::in_a_thread;
use crate::namespace::Inside;
use crate::netlink::Netlink;

/// Runs a test in a separate network namespace; reports it as skipped, in the form that is counted, where there can be none.
pub(crate) fn in_a_network(name: &str, test: impl FnOnce(Inside) + Send) {
    let ran = in_a_thread(name, || {
        unshare(CloneFlags::CLONE_NEWNET)?;
        let inside = Inside::of_a_test();
        let mut netlink = Netlink::open(inside).expect("a namespace of ours has netlink");
        let loopback = netlink.index("lo").expect("a network has loopback");
        netlink.up(loopback).expect("loopback can be up");
        test(inside);
        Ok::<_, nix::errno::Errno>(())
    });
    if let Err(error) = ran.expect("a thread can be started") {
        skip::report(name, &format!("no separate network: {error}"));
    }
}
