//! `handfast upgrade` of a test's proxy. In: a proxy with an upgrade socket. Out: the process that took over.

use std::path::Path;

use rustix::process::Signal;

use super::backend::Backend;
use super::config::Config;
use super::folder::Folder;
use super::process::Process;
use super::proxy::Proxy;
use super::tools;

/// One service and an upgrade socket, with time for tunnels to live on.
pub(crate) fn config(folder: &Folder, backend: &Backend) -> Config {
    Config::to(folder, backend.address)
        .text("process", "upgrade-socket", folder.file("upgrade.sock").display())
        .text("process", "drain", "5m")
}

/// A process that took over; it is not a child, so it cannot be waited for.
pub(crate) struct Successor(pub(crate) Process);

impl Drop for Successor {
    fn drop(&mut self) {
        if Path::new(&format!("/proc/{}", self.0.0)).exists() {
            self.0.signal(Signal::KILL);
        }
    }
}

/// Asks for an upgrade; the process that took over, or why none did.
pub(crate) fn upgrade(proxy: &Proxy, more: &[&str]) -> Result<Successor, String> {
    let file = proxy.file.display().to_string();
    let mut arguments = vec!["upgrade", "-c", &file];
    arguments.extend_from_slice(more);
    let ran = tools::handfast(&arguments);
    match ran.code {
        Some(0) => {
            let process =
                ran.output.strip_prefix("upgraded: process ").and_then(|rest| rest.split(' ').next());
            let process = process.and_then(|number| number.parse().ok());
            Ok(Successor(Process(process.unwrap_or_else(|| panic!("no process in {}", ran.output)))))
        }
        Some(1) => Err(ran.talk),
        _ => panic!("{}", ran.all()),
    }
}
