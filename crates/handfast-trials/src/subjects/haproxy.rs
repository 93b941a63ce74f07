//! HAProxy: one frontend and one backend for the case, one of each for the bystander.
//!
//! HAProxy 2.6 bounds a client's handshake by `timeout client`. So where a case has a limit for handshakes and none for silence, the
//! frontend of the case has that limit for both.

use rustix::process::Signal;

use crate::addresses::{BYSTANDER, ECHO, SERVICE};
use crate::mode::{self, Mode};
use crate::setup::USUAL;
use crate::subject::{Scene, Subject, milliseconds};

/// The adapter.
pub(super) const HAPROXY: Subject = Subject {
    name: "haproxy",
    title: "HAProxy",
    files: &["haproxy"],
    version: "-v",
    file: "haproxy.cfg",
    modes: &mode::RELAY_MODES,
    settings: &["connect", "handshake", "idle", "half-closed", "tcp-user-timeout", "tcp-keepalive", "drain"],
    configuration,
    unknown_line: "bakend",
    words: |file| ["-W", "-db", "-f", file].map(str::to_owned).to_vec(),
    check: Some(|file| ["-c", "-f", file].map(str::to_owned).to_vec()),
    reload: Signal::USR2,
    drain: Some(Signal::USR1),
    sends_close_notify: true,
    is_logged: false,
    has_bystander: true,
};

/// Timeouts of a frontend and of its backend.
fn timeouts(scene: &Scene<'_>) -> (String, String) {
    let time = |name: &str, usual: &str| scene.limit(name).map_or(usual.to_owned(), milliseconds);
    let idle = time("idle", "1h");
    // Without a limit of the case, the usual ones hold in a half-closed connection too.
    let fin = |side: &str| {
        let line =
            scene.limit("half-closed").map(|limit| format!(" timeout {side}-fin {}\n", milliseconds(limit)));
        line.unwrap_or_default()
    };
    let client = if scene.limit("idle").is_none() { time("handshake", &idle) } else { idle.clone() };
    let keepalive = |side: &str| {
        let lines = scene.limit("tcp-keepalive").map(milliseconds).map(|time| {
            format!(
                " option {side}tcpka\n {side}tcpka-idle {time}\n {side}tcpka-intvl {time}\n {side}tcpka-cnt 3\n"
            )
        });
        lines.unwrap_or_default()
    };
    (
        format!(" timeout client {client}\n{}{}", fin("client"), keepalive("cli")),
        format!(
            " timeout connect {}\n timeout server {idle}\n {} option redispatch 1\n{}",
            time("connect", "5s"),
            fin("server"),
            keepalive("srv")
        ),
    )
}

fn configuration(scene: &Scene<'_>) -> String {
    let drain = scene.limit("drain").map(|limit| format!(" hard-stop-after {}\n", milliseconds(limit)));
    let global = format!("global\n maxconn 2000\n nbthread 2\n{}", drain.unwrap_or_default());
    let backends = scene.backends();
    let backends: Vec<&str> = backends.iter().map(String::as_str).collect();
    let case = service(scene, "case", &SERVICE.to_string(), &backends);
    // The limits of the case are not the bystander's.
    let usual = Scene { setup: &USUAL, ..*scene };
    let bystander = service(&usual, "bystander", &BYSTANDER.to_string(), &[&ECHO.to_string()]);
    format!("{global}defaults\n mode tcp\n{case}{bystander}")
}

fn service(scene: &Scene<'_>, name: &str, listen: &str, backends: &[&str]) -> String {
    let (mode, folder) = (scene.mode, scene.folder);
    let gives_up = scene.limit("tcp-user-timeout").map(|limit| format!(" tcp-ut {}", milliseconds(limit)));
    let gives_up = gives_up.unwrap_or_default();
    let mut bind = gives_up.clone();
    if mode.terminates() {
        bind += &format!(" ssl crt {folder}/web.pem");
        if scene.setup.asks_for_certificates {
            bind += &format!(" verify optional ca-file {folder}/ca.pem");
        }
    }
    if mode == Mode::ProxyIn {
        bind += " accept-proxy";
    }
    let inspect = if mode == Mode::PassThrough {
        let delay = scene.limit("handshake").map_or("10s".to_owned(), milliseconds);
        format!(
            " tcp-request inspect-delay {delay}\n tcp-request content accept if {{ req.ssl_hello_type 1 }}\n \
             tcp-request content reject\n"
        )
    } else {
        String::new()
    };
    let mut to = gives_up;
    if mode.originates() {
        to +=
            &format!(" ssl verify required ca-file {folder}/ca.pem sni str(localhost) verifyhost localhost");
    }
    if mode == Mode::ProxyOut {
        to += " send-proxy-v2";
    }
    let server = |(number, address): (usize, &&str)| format!(" server s{number} {address}{to}\n");
    let servers: String = backends.iter().enumerate().map(server).collect();
    let (client, server) = timeouts(scene);
    format!(
        "frontend {name}\n bind {listen}{bind}\n{client}{inspect} default_backend {name}\nbackend {name}\n{server}{servers}"
    )
}
