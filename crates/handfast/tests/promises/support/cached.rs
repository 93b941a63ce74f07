//! HTTP mode with `[service.cache]`: an origin that follows a script, a proxy in front of it whose cache is open, and the system calls that store a
//! response. In: the script. Out: both, and the steps.

use super::backend::{Backend, Peer};
use super::config::Config;
use super::deadline::wait_until;
use super::folder::Folder;
use super::proxy::Proxy;
use super::tracer::Tracer;

/// The folder of the cache, in that of the test.
pub(crate) const FOLDER: &str = "cache";

/// System calls that change a file or a folder: the steps of storing a response are among them.
pub(crate) const STORING: &str = "?openat,?openat2,?write,?writev,?pwrite64,?pwritev,?pwritev2,?ftruncate,?fallocate,?fsync,?fdatasync,\
                     ?rename,?renameat,?renameat2,?link,?linkat,?unlink,?unlinkat";

/// One system call of storing a response.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Step {
    pub(crate) call: String,
    /// The first file that it names: `c` for content, `h` for a head, `t` for a head that is not complete.
    pub(crate) file: char,
    /// Among calls of the same name, from 1.
    pub(crate) number: usize,
}

/// An origin that answers each request with `respond`, which receives the path.
pub(crate) fn origin(respond: impl Fn(&mut Peer, &str) + Send + Sync + 'static) -> Backend {
    Backend::start(move |peer: &mut Peer| {
        while let Some(head) = peer.head() {
            respond(peer, head.split(' ').nth(1).expect("a path"));
        }
    })
}

/// The head of a response that may be stored.
pub(crate) fn head(size: usize) -> String {
    format!("HTTP/1.1 200 OK\r\nCache-Control: max-age=6000\r\nContent-Length: {size}\r\n\r\n")
}

/// A service with this origin and a cache.
pub(crate) fn config(folder: &Folder, backend: &Backend) -> String {
    let config = Config::empty()
        .service("web", backend.address)
        .set("service", "client-tls", false)
        .text("service", "mode", "http")
        .text("process", "upgrade-socket", folder.file("upgrade.sock").display());
    let cache = folder.file(FOLDER);
    format!("{config}[service.cache]\nfolder = \"{}\"\nsize = \"64MiB\"\n", cache.display())
}

/// Starts a proxy, and waits until its cache is open.
pub(crate) fn start(config: &str) -> Proxy {
    let proxy = Proxy::start(config);
    wait_until_open(&proxy);
    proxy
}

/// Waits until the cache works.
pub(crate) fn wait_until_open(proxy: &Proxy) {
    wait_until("the cache to be open", || {
        (proxy.metrics().sum("handfast_cache_up", &[]) == 1.0).then_some(())
    });
}

/// Steps from the lines of strace.
pub(crate) fn steps(lines: &[String]) -> Vec<Step> {
    let mut steps: Vec<Step> = Vec::new();
    for line in lines {
        let named = |part: &&str| matches!(part.as_bytes(), [.., b'.', b'c' | b'h' | b't']);
        let Some(file) = line.split(['"', '<', '>']).find(named).and_then(|name| name.chars().last()) else {
            continue;
        };
        let call = line.split('(').next().expect("splitting gives at least one").to_owned();
        let number = 1 + steps.iter().filter(|step| step.call == call).count();
        steps.push(Step { call, file, number });
    }
    steps
}

/// The one thread that stores from now on, as long as the second value lives.
pub(crate) fn one_writer(proxy: &Proxy) -> (u32, Tracer) {
    let threads = |name: &str| proxy.process().threads_named(name);
    // The first one only reads.
    let (reader, writer) = (threads("cache-disk-0"), threads("cache-disk-1"));
    let mut others = threads("cache-disk-");
    others.retain(|thread| !reader.contains(thread) && !writer.contains(thread));
    (writer[0], Tracer::hold_threads(&others))
}
