//! Tests for the messages that the proxy's side sends to the key process, without one.

use std::process::Command;

use handfast_pki::apart::ID;
use rustix::net::{RecvFlags, recv};

use super::channel::ReceivedRequest;
use super::*;

/// A key that left the index and of which the key process was not notified would stay in its memory for good.
#[test]
fn keys_that_expire_while_a_file_is_read_are_dropped_afterwards() {
    let (ours, theirs) = socket_pair().expect("there are descriptors");
    let (control, _supervisor) = socket_pair().expect("there are descriptors");
    let keys = KeyProcess {
        channels: ChannelPool::new(Vec::new()),
        file_channel: Mutex::new(Channel::new(ours)),
        heartbeat_channel: Mutex::new(None),
        control,
        index: Mutex::default(),
        requested_files: Mutex::new(None),
        health: Arc::new(KeyProcessHealth::new()),
        _supervisor: Command::new("true").spawn().expect("it is there"),
    };
    let key = KeyId([7; ID]);
    lock(&keys.index).insert(Path::new("/web.pem"), &[key]);
    keys.set_needed(&HashSet::new());
    lock(&keys.index).expire_unneeded();

    let reading = lock(&keys.file_channel);
    keys.drop_expired();
    drop(reading);
    let mut buffer = [0; 128];
    assert!(recv(&theirs, &mut buffer[..], RecvFlags::DONTWAIT).is_err(), "the channel is in use");

    keys.drop_expired();
    let (_, length) = recv(&theirs, &mut buffer[..], RecvFlags::DONTWAIT).expect("it was sent");
    let received = ReceivedRequest::decode(&buffer[..length]).expect("a request");
    assert_eq!((received.request, received.content), (Request::Forget, &key.0[..]));
}
