//! A flood of slow or heavy hellos does not drown the open tunnels: they keep nearly all of their pace.

use std::io::Write;
use std::net::TcpStream;
use std::sync::Arc;
use std::time::{Duration, Instant};

use rustls::ClientConfig;

use super::support::certificates::localhost_rsa;
use super::support::client::dial;
use super::support::crowd::Crowd;
use super::support::hello::Hello;
use super::support::*;

/// Round trips measured for one figure.
const ROUND_TRIPS: usize = 300;

/// The time that 99 of 100 round trips of 4 KiB stay below.
fn slowest_of_a_hundred(client: &mut Client) -> Duration {
    let mut times: Vec<Duration> = (0..ROUND_TRIPS)
        .map(|_| {
            let start = Instant::now();
            client.echo(&[b'p'; 4096]);
            start.elapsed()
        })
        .collect();
    times.sort_unstable();
    times[ROUND_TRIPS * 99 / 100]
}

#[test]
fn signatures_that_others_would_notice_are_made_by_another_thread() {
    for version in [Version::Tls12, Version::Tls13] {
        let stage = Stage::with(Backend::echo(), |config, folder| {
            let certificate = folder.write("rsa.pem", localhost_rsa().combined());
            config.set("process", "threads", 1).text("service", "certificate", certificate.display())
        });
        let moved = || stage.proxy.metrics().sum("handfast_handshakes_offloaded_total", &[]);
        let config = Trust::version(version).forgetful().config();
        let address = stage.proxy.address();
        let crowd = |config: &Arc<ClientConfig>| {
            let config = Arc::clone(config);
            Crowd::start(16, move |number| {
                let mut client = Client::try_connect(address, &config, "localhost")
                    .map_err(|refusal| format!("{refusal:?}"))?;
                client.echo(&[number as u8; 100]);
                client.finish();
                Ok(())
            })
        };
        // No worker is idle for long: moving them would only cost.
        let newcomers = crowd(&config);
        wait_until("a crowd", || (newcomers.done() > 100).then_some(()));
        newcomers.finish();
        let before = moved();
        let mut open = stage.client(&config);
        open.echo(b"a new client does not wait");
        assert_eq!(moved(), before);
        let newcomers = crowd(&config);
        wait_until("signatures to move", || {
            open.echo(&[b'p'; 4096]);
            (moved() > before + 50.0).then_some(())
        });
        newcomers.finish();
        open.finish();
        stage.serves_and_is_quiet();
    }
}

/// Their bounds are times, so they run alone.
mod timed {
    use super::*;

    #[test]
    fn a_thousand_dripping_hellos_change_nothing_for_others() {
        let stage = Stage::echo();
        let mut client = stage.any_client();
        let alone = slowest_of_a_hundred(&mut client);
        let hello = Hello::new(&Trust::version(Version::Tls13).post_quantum().config());
        let mut slow: Vec<TcpStream> =
            (0..1000).map(|_| dial(stage.proxy.address()).expect("the proxy listens")).collect();
        for stream in &mut slow {
            stream.write_all(&hello.record[..hello.record.len() / 2]).expect("the proxy reads");
        }
        let among = slowest_of_a_hundred(&mut client);
        // Twice, and a scheduling quantum of a machine on which other tests run.
        let allowed = alone * 2 + Duration::from_millis(20);
        assert!(
            among <= allowed,
            "99 of 100 round trips take {among:?} now, {alone:?} before; allowed {allowed:?}"
        );
        drop(slow);
        client.finish();
        stage.counts("client", "closed-early", 1000);
        stage.serves_and_is_quiet();
    }

    #[test]
    fn a_flood_of_handshakes_leaves_tunnels_their_turn() {
        let stage = Stage::echo();
        let mut client = stage.any_client();
        let (address, config) = (stage.proxy.address(), Trust::version(Version::Tls13).config());
        let flood = Crowd::start(8, move |_| {
            // Leaves right after the hello: the dear half is ours, the cheap half theirs.
            let hello = Hello::new(&Arc::clone(&config));
            let mut stream = dial(address).map_err(|error| error.to_string())?;
            stream.write_all(&hello.record).map_err(|error| error.to_string())
        });
        wait_until("the flood to run", || (flood.done() > 100).then_some(()));
        let before = flood.done();
        let among = slowest_of_a_hundred(&mut client);
        assert!(flood.done() > before, "the flood went on meanwhile");
        // The generator takes half of the machine for itself; what must not happen is a wait behind whole batches.
        assert!(
            among < Duration::from_millis(250),
            "99 of 100 round trips take {among:?} under a flood of handshakes"
        );
        flood.finish();
        client.finish();
        stage.serves_and_is_quiet();
    }
}
