//! ghostunnel: one listener and one target for a process, given on its command line, which it also reads from a file with an argument in each
//! line (`@FILE`). One time bounds connecting and handshakes (`--connect-timeout`).

use rustix::process::Signal;

use crate::addresses::SERVICE;
use crate::mode::Mode;
use crate::subject::{Scene, Subject};

/// The adapter.
pub(super) const GHOSTUNNEL: Subject = Subject {
    name: "ghostunnel",
    title: "ghostunnel",
    files: &["ghostunnel"],
    version: "--version",
    file: "ghostunnel.args",
    modes: &[Mode::Terminate, Mode::Originate, Mode::ProxyOut],
    settings: &["handshake", "connect", "drain"],
    configuration,
    unknown_line: "--bakend=1",
    words: |file| vec![format!("@{file}")],
    check: None,
    reload: Signal::HUP,
    drain: Some(Signal::TERM),
    sends_close_notify: true,
    is_logged: false,
    has_bystander: false,
};

fn configuration(scene: &Scene<'_>) -> String {
    let folder = scene.folder;
    let opening = scene.limit("handshake").or(scene.limit("connect"));
    let mut lines = vec![
        if scene.mode == Mode::Originate { "client" } else { "server" }.to_owned(),
        format!("--listen={SERVICE}"),
        format!("--target={}", scene.backend),
        format!("--cacert={folder}/ca.pem"),
        "--quiet=all".to_owned(),
        "--disable-authentication".to_owned(),
    ];
    if scene.mode == Mode::Originate {
        lines.extend(["--unsafe-listen", "--override-server-name=localhost"].map(str::to_owned));
    } else {
        lines.push(format!("--keystore={folder}/web.pem"));
        lines.push("--unsafe-target".to_owned());
    }
    if scene.mode == Mode::ProxyOut {
        lines.push("--proxy-protocol".to_owned());
    }
    for (option, limit) in [("connect-timeout", opening), ("shutdown-timeout", scene.limit("drain"))] {
        lines.extend(limit.map(|limit| format!("--{option}={}ms", limit.as_millis())));
    }
    lines.join("\n") + "\n"
}
