//! Private keys are not where the network is (`process.private-keys = "separate-process"`): the process that talks with clients serves with RSA and
//! ECDSA keys and has not a byte of them in its memory; a second one has, where the same search finds them. When that one ends or
//! is stopped, handshakes wait or fail by name, tunnels live on, and it is started again; it ends with the proxy.

use std::fs;
use std::time::{Duration, Instant};

use rustix::process::Signal;

use super::support::crowd::Crowd;
use super::support::deadline::wait_until_seeing;
use super::support::folder::Folder;
use super::support::key_process::{both, has_ended, stop};
use super::support::secrets::{found_in, of_ec, of_rsa};
use super::support::skip::{needs, skipped};
use super::support::*;

fn start(folder: &Folder, backend: &Backend) -> Proxy {
    let rsa = folder.write("rsa.pem", certificates::localhost_rsa().combined());
    let config = Config::to(folder, backend.address).certificate(&rsa);
    Proxy::start(config.text("process", "private-keys", "separate-process"))
}

fn is_served(proxy: &Proxy) {
    let mut client = Client::connect(proxy.address(), &Trust::version(Version::Tls13).forgetful().config());
    client.echo(b"by a key that is elsewhere");
    client.finish();
}

fn tries(proxy: &Proxy) -> bool {
    let config = Trust::version(Version::Tls13).forgetful().config();
    Client::try_connect(proxy.address(), &config, "localhost").is_ok()
}

#[test]
fn a_search_finds_them_in_the_key_process_alone() {
    needs!("openssl");
    if !rustix::process::geteuid().is_root() {
        skipped!("only root reads the memory of others");
    }
    let (folder, backend) = (Folder::new(), Backend::echo());
    let proxy = start(&folder, &backend);
    let ca = folder.write("ca.crt", &authority().pem).display().to_string();
    let address = proxy.address().to_string();
    for version in ["-tls1_2", "-tls1_3"] {
        for (offered, signature) in [("rsa_pss_rsae_sha256", "RSA-PSS"), ("ecdsa_secp256r1_sha256", "ECDSA")]
        {
            let arguments = [
                "s_client",
                "-connect",
                &address,
                "-servername",
                "localhost",
                "-CAfile",
                &ca,
                "-verify_return_error",
                version,
                "-sigalgs",
                offered,
            ];
            let ran = tools::run("openssl", &arguments, b"");
            let signature_line = format!("Peer signature type: {signature}");
            assert!(
                ran.output.contains(&signature_line) && ran.output.contains("Verification: OK"),
                "{}",
                ran.all()
            );
        }
    }
    let (supervisor, keys) = both(proxy.process());
    let secrets: Vec<_> = of_rsa(certificates::localhost_rsa())
        .chain(of_ec("the EC scalar", certificates::localhost()))
        .collect();
    let expected = ["the EC scalar", "the RSA exponent d", "the RSA prime p", "the RSA prime q"];
    // Its memory may still have a file's text, too.
    let found = found_in(keys, &secrets);
    assert!(expected.iter().all(|secret| found.contains(secret)), "the search can find them: {found:?}");
    assert_eq!(
        found_in(proxy.process(), &secrets),
        Vec::<&str>::new(),
        "in the process that talks with clients"
    );
    assert_eq!(found_in(supervisor, &secrets), Vec::<&str>::new(), "in the supervisor");
    // Whose keys are in the process that serves: the same search, as the default has it.
    let usual = Proxy::start(Config::to(&folder, backend.address));
    is_served(&usual);
    let found = found_in(usual.process(), &secrets);
    assert!(found.contains(&"the EC scalar"), "{found:?}");
}

#[test]
fn the_key_process_is_in_a_sandbox_and_the_mode_is_reported() {
    let (folder, backend) = (Folder::new(), Backend::echo());
    let proxy = start(&folder, &backend);
    is_served(&proxy);
    let (_, keys) = both(proxy.process());
    let status = |field: &str| {
        let tasks = fs::read_dir(format!("/proc/{}/task", keys.0)).expect("it lives").flatten();
        let text = tasks.filter_map(|task| fs::read_to_string(task.path().join("status")).ok());
        let of = |text: String| {
            text.lines().find_map(|line| line.strip_prefix(field)).map(|value| value.trim().to_owned())
        };
        text.filter_map(of).collect::<Vec<_>>()
    };
    if proxy.talk.so_far().iter().all(|line| !line.contains("served without")) {
        assert!(status("Seccomp:").iter().all(|mode| mode == "2"), "{:?}", status("Seccomp:"));
    }
    assert!(status("NoNewPrivs:").iter().all(|set| set == "1") && status("NoNewPrivs:").len() >= 3);
    let explained = tools::handfast(&["check", "--explain", "-c", &proxy.file.display().to_string()]);
    assert!(explained.output.contains("Private keys are held by a separate process"), "{}", explained.all());
    let metrics = proxy.metrics();
    assert_eq!(metrics.sum("handfast_key_process_up", &[]), 1.0, "{}", metrics.text());
    assert_eq!(proxy.status()["key_process"]["answers"], true, "{}", proxy.status());
    let by_hand = tools::handfast(&["key-process", "3"]);
    assert!(
        by_hand.code == Some(1) && by_hand.talk.contains("only `handfast proxy` starts this command"),
        "{}",
        by_hand.all()
    );
}

#[test]
fn one_that_is_killed_is_started_again_and_tunnels_live_on() {
    let (folder, backend) = (Folder::new(), Backend::echo());
    let proxy = start(&folder, &backend);
    let mut tunnel = Client::connect(proxy.address(), &Trust::version(Version::Tls13).config());
    tunnel.echo(b"before");
    let (supervisor, keys) = both(proxy.process());
    keys.signal(Signal::KILL);
    // Each of these waits for the next key process, or fails by name.
    let mut failed = 0;
    wait_until("a handshake with the next key process", || {
        let is_served = tries(&proxy);
        failed += usize::from(!is_served);
        is_served.then_some(())
    });
    let named =
        || proxy.records().iter().filter(|record| record.reason() == "handshake/local/key-process").count();
    wait_until_seeing(
        "every failure to have its name",
        || (named() == failed).then_some(()),
        || format!("{} of {failed}", named()),
    );
    tunnel.echo(b"after");
    proxy.talk.containing("the key process ended (signal: 9 (SIGKILL)) and is started again");
    proxy.talk.containing("the key process signs again, after");
    let (same, next) = both(proxy.process());
    assert!(same.0 == supervisor.0 && next.0 != keys.0);
    assert_eq!(proxy.metrics().sum("handfast_key_process_restarts_total", &[]), 1.0);
    is_served(&proxy);
    tunnel.finish();
}

#[test]
fn one_that_stands_still_stops_handshakes_by_name_and_no_tunnel() {
    let (folder, backend) = (Folder::new(), Backend::echo());
    let proxy = start(&folder, &backend);
    let mut tunnel = Client::connect(proxy.address(), &Trust::version(Version::Tls13).config());
    let (_, keys) = both(proxy.process());
    stop(keys);
    assert!(!tries(&proxy));
    let record = proxy.record_of("handshake/local/key-process");
    // The thread was blocked for this duration, and no longer.
    assert!(record.detail().contains("the key process did not answer within 200ms"), "{}", record.detail());
    assert!(!tries(&proxy), "nor does the next one get through");
    tunnel.echo(b"meanwhile");
    assert_eq!(proxy.metrics().sum("handfast_key_process_up", &[]), 0.0);
    keys.signal(Signal::CONT);
    wait_until("a handshake", || tries(&proxy).then_some(()));
    assert_eq!(proxy.metrics().sum("handfast_key_process_up", &[]), 1.0);
    tunnel.echo(b"after");
    tunnel.finish();
}

/// Clients keep coming, less than 100 ms apart, all the time: each of them fails, and none keeps the next one from being served.
#[test]
fn a_stall_ends_for_clients_when_it_ends_for_the_key_process() {
    let (folder, backend) = (Folder::new(), Backend::echo());
    let proxy = start(&folder, &backend);
    let address = proxy.address();
    let config = Trust::version(Version::Tls13).forgetful().config();
    let crowd = Crowd::start(4, move |_| {
        let _ = Client::try_connect(address, &config, "localhost");
        pause(Duration::from_millis(20));
        Ok(())
    });
    let ready = || {
        let answer = http::get(proxy.admin(), "/ready", "*/*");
        (answer.status, answer.body)
    };
    wait_until("it to be ready", || (ready().0 == 200).then_some(()));
    let (_, keys) = both(proxy.process());
    let begun = Instant::now();
    stop(keys);
    let because = wait_until("it not to be ready", || Some(ready()).filter(|(status, _)| *status == 503)).1;
    assert!(because.contains("the key process has not answered for"), "{because}");
    proxy.talk.containing("the key process has not answered for");
    pause(Duration::from_millis(2_500).saturating_sub(begun.elapsed()));
    keys.signal(Signal::CONT);
    wait_until("a handshake", || tries(&proxy).then_some(()));
    wait_until("it to be ready", || (ready().0 == 200).then_some(()));
    proxy.talk.containing("the key process answers again, after");
    crowd.finish();
    // Once each: on a machine under load there may be another stall, which begins when this one has ended.
    let (begin, end) = ("the key process has not answered for", "the key process answers again, after");
    let lines = proxy.talk.so_far();
    let stalls: Vec<_> = lines.iter().filter(|line| line.contains(begin) || line.contains(end)).collect();
    assert!(
        stalls.iter().enumerate().all(|(place, line)| line.contains(begin) == (place % 2 == 0)),
        "{stalls:?}"
    );
    // Also when no client is there to find out.
    stop(keys);
    wait_until("it not to be ready", || (ready().0 == 503).then_some(()));
    keys.signal(Signal::CONT);
    wait_until("it to be ready", || (ready().0 == 200).then_some(()));
    is_served(&proxy);
}

#[test]
fn a_reload_brings_new_keys_which_the_next_key_process_has_too() {
    let (folder, backend) = (Folder::new(), Backend::echo());
    let file = folder.write("web.pem", certificates::localhost().combined());
    let config = Config::empty().service("web", backend.address).certificate(&file);
    let proxy = Proxy::start(config.text("process", "private-keys", "separate-process"));
    let mut tunnel = Client::connect(proxy.address(), &Trust::version(Version::Tls13).config());
    let next = authority().identity(&["localhost"], certificates::KeyKind::Ecdsa);
    folder.replace("web.pem", next.combined());
    assert!(proxy.reload());
    let shown = || {
        let client = Client::connect(proxy.address(), &Trust::version(Version::Tls13).forgetful().config());
        client.certificate().to_vec()
    };
    assert_eq!(shown(), next.certificate.to_vec());
    // A certificate without its key changes nothing.
    folder.replace("web.pem", &next.certificate_pem);
    assert!(!proxy.reload());
    assert_eq!(shown(), next.certificate.to_vec());
    folder.replace("web.pem", next.combined());
    assert!(proxy.reload());
    both(proxy.process()).1.signal(Signal::KILL);
    wait_until("a handshake with the next key process", || tries(&proxy).then_some(()));
    assert_eq!(shown(), next.certificate.to_vec());
    tunnel.echo(b"all the while");
    tunnel.finish();
}

#[test]
fn nothing_of_it_outlives_the_proxy() {
    let (folder, backend) = (Folder::new(), Backend::echo());
    let mut proxy = start(&folder, &backend);
    let (supervisor, keys) = both(proxy.process());
    proxy.signal(Signal::KILL);
    proxy.ended();
    wait_until("the supervisor to end", || has_ended(supervisor).then_some(()));
    wait_until("the key process to end", || has_ended(keys).then_some(()));
    // A stop of the whole group, as a terminal sends it, is the proxy's alone to carry out.
    let proxy = start(&folder, &backend);
    let (supervisor, keys) = both(proxy.process());
    keys.signal(Signal::TERM);
    supervisor.signal(Signal::INT);
    is_served(&proxy);
    assert_eq!(proxy.stop().0, Some(0));
    wait_until("the supervisor to end", || has_ended(supervisor).then_some(()));
    wait_until("the key process to end", || has_ended(keys).then_some(()));
}

#[test]
fn it_is_kept_from_swap_or_says_that_it_is_not() {
    needs!("setpriv", "prlimit");
    if !rustix::process::geteuid().is_root() {
        skipped!("only root may lock as much memory as it likes");
    }
    let (folder, backend) = (Folder::new(), Backend::echo());
    let config = Config::to(&folder, backend.address).text("process", "private-keys", "separate-process");
    // As most containers have it: root, but with a limit.
    let limited = [
        "prlimit",
        "--memlock=65536:65536",
        "setpriv",
        "--bounding-set",
        "-ipc_lock",
        "--inh-caps",
        "-ipc_lock",
    ];
    let free = ["prlimit", "--memlock=65536:65536"];
    for (prefix, is_free) in [(&limited[..], false), (&free[..], true)] {
        let proxy = Proxy::start_under(prefix, &config);
        is_served(&proxy);
        let (_, keys) = both(proxy.process());
        let status = fs::read_to_string(format!("/proc/{}/status", keys.0)).expect("it lives");
        let locked =
            status.lines().find_map(|line| line.strip_prefix("VmLck:")).expect("the kernel reports it");
        let expected =
            "the key process is not allowed to lock its memory, so private keys may be written to swap";
        assert_eq!(locked.trim() != "0 kB", is_free, "{locked}");
        if is_free {
            assert!(!proxy.talk.so_far().iter().any(|line| line.contains(expected)));
        } else {
            proxy.talk.containing(expected);
            // Once, however often it is started again.
            keys.signal(Signal::KILL);
            proxy.talk.containing("the key process signs again, after");
            assert_eq!(proxy.talk.so_far().iter().filter(|line| line.contains(expected)).count(), 1);
        }
        is_served(&proxy);
    }
}
