//! A server for handshakes: the `openssl` program.

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use tempfile::TempDir;
use tokio::sync::mpsc;

/// A server that ends with its test.
pub(super) struct Target {
    child: Child,
    /// Where it listens.
    pub(super) port: u16,
    _folder: TempDir,
}

impl Target {
    /// Starts one; `None` where there is no `openssl` program.
    pub(super) async fn start() -> Option<Self> {
        let folder = tempfile::tempdir().unwrap();
        let (certificate, key) = (folder.path().join("cert.pem"), folder.path().join("key.pem"));
        let made = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
        crate::fleet::tests::write(&certificate, &made.cert.pem());
        crate::fleet::tests::write(&key, &made.signing_key.serialize_pem());
        let mut child = Command::new("openssl")
            .args(["s_server", "-accept", "127.0.0.1:0", "-www", "-cert"])
            .arg(&certificate)
            .arg("-key")
            .arg(&key)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .ok()?;
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let (tell, mut port) = mpsc::channel(1);
        // Reads to the end, so that the server can always write.
        let read = move || {
            for line in lines.map_while(Result::ok) {
                let port =
                    line.strip_prefix("ACCEPT ").and_then(|at| at.rsplit_once(':')?.1.trim().parse().ok());
                if let Some(port) = port {
                    let _ = tell.try_send(port);
                }
            }
        };
        std::thread::Builder::new().name("target-log".into()).spawn(read).unwrap();
        let port = tokio::time::timeout(Duration::from_secs(10), port.recv()).await;
        Some(Self { child, port: port.unwrap().expect("openssl did not start"), _folder: folder })
    }
}

impl Drop for Target {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
