//! Operators ask by command: `handfast reload`, `reopen`, `drain` and `stop` ask one proxy, say what came of it, and end with 1 when it
//! was not done. A signal for the proxy that reaches the other commands too (`kill -HUP $(pidof handfast)`) does not end them.

use std::fs;
use std::path::Path;

use rustix::process::Signal;

use super::support::folder::Folder;
use super::support::network::in_a_network_of_its_own;
use super::support::proxy::PROGRAM;
use super::support::skip::skipped;
use super::support::tools::{self, Ran, Tool};
use super::support::*;

fn run_verb(verb: &str, proxy: &Proxy) -> Ran {
    tools::handfast(&[verb, &proxy.admin().to_string()])
}

#[test]
fn a_reload_says_what_came_of_it() {
    let (folder, backend) = (Folder::new(), Backend::echo());
    let config = Config::to(&folder, backend.address);
    let proxy = Proxy::start(config.clone());
    let good = run_verb("reload", &proxy);
    assert_eq!(good.code, Some(0), "{}", good.all());
    assert!(good.output.contains("generation 2"), "{}", good.all());
    proxy.rewrite(config.text("service", "certificate", "/none/web.pem"));
    let bad = run_verb("reload", &proxy);
    assert_eq!(bad.code, Some(1), "{}", bad.all());
    assert!(bad.talk.contains("/none/web.pem"), "{}", bad.all());
}

#[test]
fn the_configuration_says_where_to_ask() {
    let (folder, backend) = (Folder::new(), Backend::echo());
    let admin = format!("unix:{}", folder.file("admin.sock").display());
    let config = Config::to(&folder, backend.address).text("admin", "listen", admin);
    let proxy = Proxy::start(config.clone());
    let file = proxy.file.display().to_string();
    assert_eq!(tools::handfast(&["reload", "-c", &file]).code, Some(0));
    let off =
        folder.write("off.toml", config.text("admin", "listen", "off").to_string()).display().to_string();
    let none = tools::handfast(&["reload", "-c", &off]);
    assert_eq!(none.code, Some(2), "{}", none.all());
    assert!(none.talk.contains("admin.listen is \"off\"") && none.talk.contains("hint: "), "{}", none.all());
    let nobody = tools::handfast(&["stop", "127.0.0.1:1"]);
    assert_eq!(nobody.code, Some(1), "{}", nobody.all());
}

#[test]
fn the_access_log_is_opened_again() {
    let (folder, backend) = (Folder::new(), Backend::echo());
    let log = folder.file("access.log");
    let proxy = Proxy::start(Config::to(&folder, backend.address).text("access-log", "to", log.display()));
    fs::rename(&log, folder.file("access.log.1")).expect("it is there");
    assert_eq!(run_verb("reopen", &proxy).code, Some(0));
    wait_until("the log to be made again", || log.exists().then_some(()));
}

#[test]
fn a_drain_returns_at_once_and_a_stop_waits_for_the_end() {
    let (folder, backend) = (Folder::new(), Backend::echo());
    for verb in ["drain", "stop"] {
        let mut proxy = Proxy::start(Config::to(&folder, backend.address));
        let mut tunnel = Client::connect(proxy.address(), &Trust::version(Version::Tls13).config());
        tunnel.echo(b"before");
        let mut running = Some(Tool::start(PROGRAM, &[verb, &proxy.admin().to_string()]));
        let is_draining = || (http::get(proxy.admin(), "/ready", "*/*").status == 503).then_some(());
        wait_until("the proxy to drain", is_draining);
        let drained = running.take_if(|_| verb == "drain").map(Tool::ended);
        tunnel.echo(b"it lives on");
        assert!(proxy.lives());
        tunnel.finish();
        if let Some(ran) = drained {
            assert_eq!(ran.code, Some(0), "{}", ran.all());
        }
        if let Some(stopping) = running {
            stopping.output.containing("stopped");
            let ran = stopping.ended();
            assert_eq!(ran.code, Some(0), "{}", ran.all());
        }
        assert_eq!(proxy.ended().code(), Some(0));
    }
}

#[test]
fn signals_for_a_proxy_end_nothing_else() {
    let (folder, backend) = (Folder::new(), Backend::echo());
    let proxy = Proxy::start(Config::to(&folder, backend.address));
    folder.write("access.log", "");
    let log = folder.file("access.log");
    let (log, target) = (log.display().to_string(), proxy.address().to_string());
    let follow = Tool::start(PROGRAM, &["log", "--follow", &log]);
    let load = Tool::start(PROGRAM, &["load", &target, "-d", "2s", "-c", "2"]);
    // Their handlers are the first thing that they set; what is seen of them comes later.
    wait_until("both to run", || {
        let is_set = |tool: &Tool| {
            let status = fs::read_to_string(format!("/proc/{}/status", tool.process().0)).ok()?;
            let caught = status.lines().find_map(|line| line.strip_prefix("SigCgt:"))?.trim().to_owned();
            let caught = u64::from_str_radix(&caught, 16).ok()?;
            (caught & (1 << (Signal::USR1.as_raw() - 1)) != 0).then_some(())
        };
        is_set(&follow).and(is_set(&load))
    });
    for tool in [&follow, &load] {
        tool.process().signal(Signal::USR1);
        tool.process().signal(Signal::HUP);
    }
    let ran = load.ended();
    assert!(matches!(ran.code, Some(0 | 3)), "it ran to its end: {}", ran.all());
    folder.write("access.log", "no line\n");
    follow.talk.containing("skipped");
}

#[test]
fn every_command_finds_a_proxy_at_the_usual_address() {
    in_a_network_of_its_own!();
    if Path::new("/etc/handfast/handfast.toml").exists() {
        skipped!("there is a configuration of a package");
    }
    let (folder, backend) = (Folder::new(), Backend::echo());
    let proxy = Proxy::start(Config::to(&folder, backend.address).text("admin", "listen", "127.0.0.1:7643"));
    let none = "none\n  hint: write [fleet]";
    for (words, code, expected) in [
        (&["reload"][..], 0, "generation 2"),
        (&["top", "--once"], 0, "generation 2"),
        (&["reopen"], 0, "opened again"),
        (&["fleet", "list"], 1, none),
        (&["cache", "stats"], 1, "127.0.0.1:7643"),
        (&["stop"], 0, "stopped"),
    ] {
        let ran = tools::handfast(words);
        assert!(
            ran.code == Some(code) && ran.all().contains(expected),
            "{words:?}: {:?} {}",
            ran.code,
            ran.all()
        );
    }
    drop(proxy);
    let typed = tools::handfast(&["reload", "site.toml"]);
    assert!(
        typed.code == Some(2) && typed.talk.contains("hint: a configuration is named by `-c site.toml`"),
        "{}",
        typed.all()
    );
}
