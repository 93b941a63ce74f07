//! The service manager receives the true state of the proxy: ready when clients are served, reloading and ready
//! again, stopping, and watchdog pings as long as every event loop runs.

use std::time::Duration;

use rustix::process::Signal;
use rustix::time::{ClockId, clock_gettime};

use super::support::folder::Folder;
use super::support::manager::Manager;
use super::support::skip::needs;
use super::support::tracer::{Tracer, needs_tracing};
use super::support::*;

fn microseconds() -> i64 {
    let now = clock_gettime(ClockId::Monotonic);
    now.tv_sec * 1_000_000 + now.tv_nsec / 1_000
}

#[test]
fn ready_reloading_ready_again_and_stopping() {
    for manager in [Manager::with_path(), Manager::without_path()] {
        let (folder, backend) = (Folder::new(), Backend::echo());
        let config = Config::to(&folder, backend.address);
        let mut proxy = Proxy::start_with(&config, |command| manager.starts(command));
        let ready = manager.wait_for("READY");
        assert_eq!(ready["READY"], "1");
        assert_eq!(ready["STATUS"], "Serving 1 service on 1 address, generation 1");
        let before = microseconds();
        proxy.signal(Signal::HUP);
        let reloading = manager.wait_for("RELOADING");
        let at: i64 = reloading["MONOTONIC_USEC"].parse().expect("microseconds");
        assert!((before..=microseconds()).contains(&at), "{reloading:?}");
        let ready = manager.wait_for("READY");
        assert_eq!(ready["STATUS"], "Serving 1 service on 1 address, generation 2");
        proxy.rewrite("[[service]]\nname = \"half a configuration\"");
        proxy.signal(Signal::HUP);
        manager.wait_for("RELOADING");
        let ready = manager.wait_for("READY");
        let status = &ready["STATUS"];
        assert!(
            status.starts_with("Serving 1 service on 1 address, generation 2; the last reload was refused: ")
        );
        assert!(status.len() > 80, "it says why: {status}");
        proxy.signal(Signal::TERM);
        assert_eq!(manager.wait_for("STOPPING")["STOPPING"], "1");
        assert_eq!(proxy.ended().code(), Some(0));
    }
}

#[test]
fn nothing_is_sent_before_clients_are_served() {
    let manager = Manager::with_path();
    let (folder, backend) = (Folder::new(), Backend::echo());
    let config = Config::to(&folder, backend.address).text("service", "certificate", "/none/web.pem");
    let file = folder.write("handfast.toml", config.to_string());
    let mut command = manager.starts(std::process::Command::new(proxy::PROGRAM));
    let ended = command.arg("proxy").arg("-c").arg(file).output().expect("it was built");
    assert_eq!(ended.status.code(), Some(2), "{ended:?}");
    // It has ended, so nothing more can come.
    assert_eq!(manager.receive(Duration::from_millis(10)), None);
}

/// Of ten: what systemd itself calls "OK" ends at 4.9.
#[test]
fn its_unit_exposes_little() {
    needs!("systemd-analyze");
    let exposure = |unit: &std::path::Path| {
        let unit = unit.display().to_string();
        let arguments = ["security", "--offline=true", "--threshold=20", "--no-pager", &unit];
        tools::run("systemd-analyze", &arguments, b"")
    };
    let shipped = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../packaging/handfast.service");
    let ran = exposure(&shipped);
    assert_eq!(ran.code, Some(0), "{}", ran.all());
    let unit = std::fs::read_to_string(&shipped).expect("it is shipped");
    let folder = Folder::new();
    let open = folder.write("handfast.service", unit.replace("ProtectSystem=strict", "ProtectSystem=no"));
    let closer = exposure(&open);
    let figure = |ran: &tools::Ran| {
        let all = ran.all();
        let (_, after) = all.split_once("exposure level for handfast.service: ").expect("it says so");
        after.split(' ').next().and_then(|figure| figure.parse::<f64>().ok()).expect("a number")
    };
    assert!(figure(&closer) > figure(&ran), "systemd looks at what the unit says");
}

#[test]
fn a_watchdog_of_another_process_is_not_ours() {
    let manager = Manager::with_path();
    let (folder, backend) = (Folder::new(), Backend::echo());
    let mut proxy = Proxy::start_with(Config::to(&folder, backend.address), |command| {
        let mut command = manager.starts(command);
        command.env("WATCHDOG_USEC", "1000").env("WATCHDOG_PID", "1");
        command
    });
    manager.wait_for("READY");
    proxy.signal(Signal::TERM);
    assert_eq!(proxy.ended().code(), Some(0));
    while let Some(message) = manager.receive(Duration::from_millis(1)) {
        assert!(!message.contains_key("WATCHDOG"), "{message:?}");
    }
}

/// Their bounds are times, so they run alone.
mod timed {
    use super::*;

    #[test]
    fn all_is_well_only_while_every_thread_turns() {
        needs_tracing!();
        let manager = Manager::with_path();
        let (folder, backend) = (Folder::new(), Backend::echo());
        let proxy = Proxy::start_with(Config::to(&folder, backend.address), |command| {
            let mut command = manager.starts(command);
            command.env("WATCHDOG_USEC", "400000");
            command
        });
        for _ in 0..3 {
            manager.wait_for("WATCHDOG");
        }
        let held = Tracer::hold(&proxy);
        proxy.talk.containing("the watchdog ping to the service manager is withheld");
        // Notifications sent before the thread was held are still in the socket.
        while manager.receive(Duration::from_millis(1)).is_some() {}
        assert_eq!(manager.receive(Duration::from_secs(1)), None, "ten times it could have been logged");
        held.release();
        manager.wait_for("WATCHDOG");
        let mut client = Client::connect(proxy.address(), &Trust::version(Version::Tls13).config());
        client.echo(b"served as before");
        client.finish();
    }
}
