//! A bus and a secret for a fleet: what `handfast fleet setup` writes, and what to do next.

use std::path::Path;

use handfast_bus::{BusError, Setup};

use crate::secret::Secret;

/// The configuration, with marks where something is to be filled in.
const CONFIGURATION: &str = include_str!("../../../docs/proxy/nats-server.conf");

/// Reason why a fleet is not set up.
#[derive(Debug, thiserror::Error)]
pub enum SetupError {
    /// The secret of the fleet cannot be made.
    #[error("make the secret of a fleet: {0}")]
    Secret(#[source] std::io::Error),
    /// The bus cannot be set up.
    #[error(transparent)]
    Bus(#[from] BusError),
}

impl SetupError {
    /// Returns true if the request is wrong, and not the machine.
    pub fn is_wrong_use(&self) -> bool {
        matches!(self, Self::Bus(error) if error.is_wrong_use())
    }
}

/// Writes a server's configuration into `folder`, with a user for machines that dial `host` at `port`, and the secret of `fleet`;
/// answers with what to do next.
///
/// **Errors**: those of [`Setup::write`]. **Cost**: blocks for a few milliseconds.
pub fn setup(folder: &Path, host: &str, port: u16, fleet: &str) -> Result<String, SetupError> {
    let secret = Secret::fresh_text().map_err(SetupError::Secret)?;
    let (template, roles, secrets) = (CONFIGURATION, &["machine"][..], &[("fleet.secret", secret)][..]);
    let setup = Setup { folder, host, port, fleet, template, roles, secrets };
    let folder = setup.write()?;
    let (url, folder) = (setup.url(), folder.display());
    Ok(format!(
        "Here, or where the bus is to run:\n  \
           nats-server -c {folder}/nats-server.conf\n\
         To every machine of the fleet, for the user that serves: copies of ca.pem, machine.secret and fleet.secret.\n\
         In the configuration of each:\n\n\
         [fleet]\n\
         name = \"{fleet}\"\n\
         bus = \"{url}\"\n\
         ca = \"ca.pem\"\n\
         credentials = \"machine.secret\"\n\
         secret = \"fleet.secret\"\n"
    ))
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn everything_is_filled_in_and_what_is_secret_is_kept() {
        let parent = tempfile::tempdir().expect("a folder");
        let folder = parent.path().join("bus");
        let next = setup(&folder, "10.0.0.5", 14_222, "blue").expect("nothing is in the way");
        assert!(
            next.contains("bus = \"tls://10.0.0.5:14222\"") && next.contains("name = \"blue\""),
            "{next}"
        );
        let read = |name: &str| fs::read_to_string(folder.join(name)).expect("it was written");
        let configuration = read("nats-server.conf");
        let lines = configuration.lines().filter(|line| !line.starts_with('#'));
        assert!(!lines.collect::<String>().contains('@'), "{configuration}");
        assert!(configuration.contains("hf.blue.m.>"), "{configuration}");
        for secret in ["nats-server.conf", "server.key", "machine.secret", "fleet.secret"] {
            let mode = fs::metadata(folder.join(secret)).expect("it was written").permissions().mode();
            assert_eq!(mode & 0o777, 0o600, "{secret}");
        }
        assert!(Secret::read(&folder.join("fleet.secret")).is_ok());
    }
}
