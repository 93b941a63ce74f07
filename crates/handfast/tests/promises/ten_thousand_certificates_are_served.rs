//! Ten thousand certificates in a folder are served: each to who asks for it, soon after the start, in little memory, and no
//! more of it after reloads.

use std::time::{Duration, Instant};

use super::support::certificates::{Identity, KeyKind};
use super::support::*;

const CERTIFICATES: usize = 10_000;
/// With optimisation this is two seconds; here the program is built for debugging and other tests run beside it.
const START: Duration = Duration::from_secs(20);
const MEMORY: u64 = 150 << 20;
/// Bytes that ten reloads may add, a tenth of what these certificates take: pages of the program that a
/// start does not use, and what the C library keeps.
const GROWTH: u64 = 3 << 20;

fn name(number: usize) -> String {
    format!("name-{number}.example")
}

/// Their bounds are times, so they run alone.
mod timed {
    use super::*;

    #[test]
    fn each_to_who_asks_for_it() {
        let folder = folder::Folder::new();
        let path = folder.folder("certificates");
        let requested = [0, 1, 4999, 9998, 9999];
        let kept: Vec<std::sync::OnceLock<Identity>> =
            requested.iter().map(|_| std::sync::OnceLock::new()).collect();
        crowd::for_each(CERTIFICATES, 2, |number| {
            let identity = authority().identity(&[&name(number)], KeyKind::Ecdsa);
            folder.write(&format!("certificates/{number}.pem"), identity.combined());
            if let Some(at) = requested.iter().position(|requested_number| *requested_number == number) {
                let _ = kept[at].set(identity);
            }
        });
        let backend = Backend::echo();
        let config = Config::empty().service("web", backend.address).certificate(&path).text(
            "service",
            "unknown-name",
            "refuse",
        );
        let start = Instant::now();
        let proxy = Proxy::start(config);
        let took = start.elapsed();
        assert!(took < START, "ready after {took:?}");
        let trust = Trust::version(Version::Tls13).config();
        let check = || {
            for (number, identity) in requested.iter().zip(&kept) {
                let client = Client::try_connect(proxy.address(), &trust, &name(*number))
                    .unwrap_or_else(|refusal| panic!("{number}: {refusal:?}"));
                assert_eq!(
                    client.certificate(),
                    identity.get().expect("it was made").certificate.as_ref(),
                    "{number}"
                );
                client.finish();
            }
            assert!(
                Client::try_connect(proxy.address(), &trust, "name-10000.example").is_err(),
                "an unknown name is refused"
            );
        };
        check();
        let memory = proxy.process().memory();
        assert!(memory <= MEMORY, "{memory} bytes, allowed are {MEMORY}");
        (0..10).for_each(|_| assert!(proxy.reload()));
        let after = proxy.process().memory();
        assert!(
            after <= memory + GROWTH && after <= MEMORY,
            "{after} bytes after ten reloads, {memory} before"
        );
        check();
    }
}
