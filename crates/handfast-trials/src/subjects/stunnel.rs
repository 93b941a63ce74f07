//! stunnel: one service for the case, one for the bystander.

use rustix::process::Signal;

use crate::addresses::{BYSTANDER, ECHO, SERVICE};
use crate::mode::Mode;
use crate::setup::USUAL;
use crate::subject::{Scene, Subject};

/// The adapter.
pub(super) const STUNNEL: Subject = Subject {
    name: "stunnel",
    title: "stunnel",
    files: &["stunnel4", "stunnel"],
    version: "-version",
    file: "stunnel.conf",
    modes: &[Mode::Terminate, Mode::Originate, Mode::StarttlsOut, Mode::ProxyOut],
    settings: &["connect", "handshake", "idle", "half-closed", "tcp-keepalive"],
    configuration,
    unknown_line: "bakend = 1",
    words: |file| vec![file.to_owned()],
    check: None,
    reload: Signal::HUP,
    drain: None,
    sends_close_notify: true,
    is_logged: false,
    has_bystander: true,
};

fn configuration(scene: &Scene<'_>) -> String {
    let keepalive = scene.limit("tcp-keepalive").map(|limit| {
        let seconds = limit.as_secs().max(1);
        let options = |side: &str| {
            format!(
                "socket = {side}:SO_KEEPALIVE=1\nsocket = {side}:TCP_KEEPIDLE={seconds}\n\
                 socket = {side}:TCP_KEEPINTVL={seconds}\nsocket = {side}:TCP_KEEPCNT=3\n"
            )
        };
        [options("l"), options("r")].concat()
    });
    let case = service(scene, "case", &SERVICE.to_string(), &scene.backends());
    let bystander =
        service(&Scene { setup: &USUAL, ..*scene }, "bystander", &BYSTANDER.to_string(), &[ECHO.to_string()]);
    format!(
        "foreground = yes\npid =\ndebug = 3\nsyslog = no\nsocket = l:TCP_NODELAY=1\nsocket = r:TCP_NODELAY=1\n{}{case}{bystander}",
        keepalive.unwrap_or_default()
    )
}

fn service(scene: &Scene<'_>, name: &str, listen: &str, backends: &[String]) -> String {
    let (mode, folder) = (scene.mode, scene.folder);
    let connect: String = backends.iter().map(|address| format!("connect = {address}\n")).collect();
    let mut lines = String::new();
    if mode.originates() {
        lines += &format!(
            "client = yes\nverifyChain = yes\nCAfile = {folder}/ca.pem\nsni = localhost\ncheckHost = localhost\n"
        );
    } else {
        lines += &format!("cert = {folder}/web.pem\n");
        if scene.setup.asks_for_certificates {
            lines += &format!("verifyChain = yes\nrequireCert = no\nCAfile = {folder}/ca.pem\n");
        }
    }
    match mode {
        Mode::StarttlsOut => lines += "protocol = pgsql\n",
        Mode::ProxyOut => lines += "protocol = proxy\n",
        _ => {}
    }
    format!(
        "[{name}]\naccept = {listen}\n{connect}failover = prio\n{lines}TIMEOUTbusy = {}\nTIMEOUTconnect = {}\nTIMEOUTclose = {}\n\
         TIMEOUTidle = {}\n",
        scene.seconds("handshake", 10),
        scene.seconds("connect", 5),
        scene.seconds("half-closed", 60),
        scene.seconds("idle", 3_600),
    )
}
