//! An idle connection costs little: at most 4.5 KiB of the program's memory, and no CPU worth mentioning however many there are. When a
//! crowd has left, its memory is given back to the system without a reload.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Mutex;
use std::thread::JoinHandle;
use std::time::Duration;

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use super::support::deadline::wait_until_seeing;
use super::support::skip::skipped;
use super::support::*;

/// As many as are held if the limit on open files allows it.
const MAX_CONNECTIONS: u64 = 3_000;
/// Fewer would not show what each costs.
const MIN_CONNECTIONS: u64 = 300;
/// Descriptors that other tests of this process may need meanwhile.
const FOR_OTHERS: u64 = 1_000;
/// Bytes of memory that are promised for each.
const BYTES: u64 = 9 << 9;
/// Time after which the youngest connection has left every state of a new one, and its keys' contexts are freed.
const SETTLED: Duration = Duration::from_millis(3500);
/// Time for which the idle proxy is watched; it may use 1 % of a CPU meanwhile.
const WATCHED: Duration = Duration::from_secs(2);

#[test]
fn in_memory_and_in_time() {
    // Each needs two descriptors here, a client's and a backend's, as it does in the proxy.
    let count = (allowed_files().saturating_sub(FOR_OTHERS) / 2).min(MAX_CONNECTIONS);
    if count < MIN_CONNECTIONS {
        skipped!("the limit on open files allows {count} connections only");
    }
    let (address, held) = echo_one_byte_and_hold();
    let folder = folder::Folder::new();
    let proxy = Proxy::start(Config::to(&folder, address));
    let config = Trust::version(Version::Tls13).forgetful().config();
    let clients = Mutex::new(Vec::new());
    let hold = |_| {
        let mut client = Client::connect(proxy.address(), &config);
        client.echo(b"x");
        // The socket alone holds the connection; TLS state of thousands of clients would be memory of this process.
        clients.lock().expect("no thread panics while holding it").push(client.into_stream());
    };
    // Memory that is allocated once is not counted.
    crowd::for_each(8, 4, hold);
    let before = proxy.process().memory();
    let more = usize::try_from(count).expect("a few thousand");
    crowd::for_each(more, 4, hold);
    let standing = || proxy.metrics().sum("handfast_connections", &[]);
    wait_until("all of them to stand", || (standing() as u64 == count + 8).then_some(()));
    // A connection that outlives its first second gets a few socket options; then its keys' contexts go, and it is idle.
    pause(SETTLED);
    let each = proxy.process().memory().saturating_sub(before) / count;
    assert!(each > 0, "memory that does not grow has not been measured");
    assert!(each <= BYTES, "{each} bytes for each of {count} idle connections; promised are {BYTES}");
    let cpu = proxy.process().cpu_precisely();
    pause(WATCHED);
    let spent = proxy.process().cpu_precisely() - cpu;
    assert!(spent <= WATCHED / 100, "{spent:?} of CPU in {WATCHED:?} with {count} idle connections");
    // Thousands of descriptors that other tests may want.
    drop(clients);
    drop(client::dial(address));
    held.join().expect("the backend has not panicked");
    // However few could be held: with so many more that leave at once they are a crowd.
    crowd::for_each(1_000, 4, |_| drop(client::dial(proxy.address())));
    wait_until_seeing(
        "most of what they took to be given back to the system",
        || (proxy.process().memory() <= before + each * count / 2).then_some(()),
        || format!("{} bytes, {before} before, {each} for each of {count}", proxy.process().memory()),
    );
}

/// Raises this process's own limit on open files as far as allowed.
fn allowed_files() -> u64 {
    let limit = getrlimit(Resource::Nofile);
    let raised = Rlimit { current: limit.maximum, maximum: limit.maximum };
    match setrlimit(Resource::Nofile, raised) {
        Ok(()) => limit.maximum.unwrap_or(u64::MAX),
        Err(_) => limit.current.unwrap_or(u64::MAX),
    }
}

/// A backend of one thread, which is enough: each client sends one byte once it is connected. It drops all of them when one
/// closes without a byte.
fn echo_one_byte_and_hold() -> (SocketAddr, JoinHandle<()>) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("loopback has a free port");
    let address = listener.local_addr().expect("a bound socket has an address");
    let echo = |mut stream: TcpStream| {
        stream.set_read_timeout(Some(DEADLINE)).ok()?;
        let mut byte = [0];
        stream.read_exact(&mut byte).and_then(|()| stream.write_all(&byte)).ok()?;
        Some(stream)
    };
    let hold = move || {
        let _held: Vec<TcpStream> = listener.incoming().map_while(Result::ok).map_while(echo).collect();
    };
    (address, deadline::thread("a backend that holds", hold))
}
