//! Handfast, in all its modes.

use rustix::process::Signal;

use crate::addresses::{BYSTANDER, ECHO, SERVICE};
use crate::mode::Mode;
use crate::subject::{Scene, Subject};

/// The adapter.
pub(super) const HANDFAST: Subject = Subject {
    name: "handfast",
    title: "Handfast",
    files: &["handfast"],
    version: "--version",
    file: "handfast.toml",
    modes: &Mode::ALL,
    settings: &["connect", "handshake", "idle", "half-closed", "tcp-user-timeout", "tcp-keepalive", "drain"],
    configuration,
    unknown_line: "bakend = 1",
    words: |file| ["proxy", "-c", file].map(str::to_owned).to_vec(),
    check: Some(|file| ["check", "-c", file].map(str::to_owned).to_vec()),
    reload: Signal::HUP,
    drain: Some(Signal::TERM),
    sends_close_notify: true,
    is_logged: true,
    has_bystander: true,
};

fn configuration(scene: &Scene<'_>) -> String {
    let setup = scene.setup;
    let (lines, more) = scene.mode.service(scene.folder, scene.client);
    let backend = if setup.backend.is_empty() {
        format!("\"{}\"", scene.backend)
    } else {
        setup.backend.replace("BACKEND", &scene.backend.to_string())
    };
    let fill = |text: &str| text.replace("FOLDER", scene.folder).replace("CLIENT", &scene.client.to_string());
    let (service, tables, globals) = (fill(setup.service), fill(setup.tables), fill(setup.globals));
    let certificates = if setup.asks_for_certificates {
        format!("[service.client-certificates]\nmode = \"request\"\nca = \"{}/ca.pem\"\n", scene.folder)
    } else {
        String::new()
    };
    let (process, limits, log) = (setup.process, setup.limits, fill(setup.log));
    format!(
        "[process]\nthreads = 2\nwatch-interval = \"1h\"\n{process}\n[access-log]\nto = \"{log}\"\n\
         [admin]\nlisten = \"127.0.0.1:7643\"\n{globals}\n\
         [[service]]\nname = \"case\"\nlisten = \"{SERVICE}\"\nbackend = {backend}\n{lines}{service}\n{more}{tables}{certificates}\n\
         [service.limits]\n{limits}\n\
         [[service]]\nname = \"bystander\"\nlisten = \"{BYSTANDER}\"\nbackend = \"{ECHO}\"\n{lines}\n{more}\n"
    )
}
