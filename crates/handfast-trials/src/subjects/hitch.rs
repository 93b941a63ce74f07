//! hitch: one frontend. All frontends of a process share one backend, so there is no bystander with a backend that the case leaves
//! alone. hitch 1.7.2 has fixed timeouts for handshakes and for connecting (30 s): its configuration refuses the words that set them.

use rustix::process::Signal;

use crate::addresses::SERVICE;
use crate::mode::Mode;
use crate::subject::{Scene, Subject};

/// The adapter.
pub(super) const HITCH: Subject = Subject {
    name: "hitch",
    title: "hitch",
    files: &["hitch"],
    version: "-V",
    file: "hitch.conf",
    modes: &[Mode::Terminate, Mode::ProxyOut],
    settings: &[],
    configuration,
    unknown_line: "bakend = 1",
    words: |file| vec![format!("--config={file}")],
    check: Some(|file| vec!["--test".to_owned(), format!("--config={file}")]),
    reload: Signal::HUP,
    drain: None,
    sends_close_notify: true,
    is_logged: false,
    has_bystander: false,
};

fn configuration(scene: &Scene<'_>) -> String {
    let (folder, to) = (scene.folder, scene.backend);
    let mut lines = String::new();
    if scene.setup.asks_for_certificates {
        lines += &format!("client-verify = optional\nclient-verify-ca = \"{folder}/ca.pem\"\n");
    }
    if scene.mode == Mode::ProxyOut {
        lines += "write-proxy-v2 = on\n";
    }
    format!(
        "frontend = {{\n host = \"{}\"\n port = \"{}\"\n}}\nbackend = \"[{}]:{}\"\npem-file = \"{folder}/web.pem\"\n\
         workers = 2\ndaemon = off\nuser = \"nobody\"\ngroup = \"nogroup\"\nlog-level = 1\nocsp-dir = \"\"\n{lines}",
        SERVICE.ip(),
        SERVICE.port(),
        to.ip(),
        to.port(),
    )
}
