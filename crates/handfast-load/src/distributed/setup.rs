//! A bus for load tests: what `handfast worker setup` writes, and the next commands.
//!
//! In: a folder, and the host that machines connect to. Out: files for the server and for each role.

use std::path::Path;

use handfast_bus::{BusAddress, Setup};
use handfast_report::ToolError;

use super::protocol::of_bus;

/// The configuration, with marks where something is to be filled in.
const CONFIGURATION: &str = include_str!("../../../../docs/load/nats-server.conf");

/// Writes a server's configuration into `folder`, for machines that dial `host` at `port` and belong to `fleet`; answers with
/// what to type next. Roles are `coordinator` and `worker`.
///
/// **Errors**: those of [`Setup::write`]. **Cost**: blocks for a few milliseconds.
pub fn setup(folder: &Path, host: &str, port: u16, fleet: &str) -> Result<String, ToolError> {
    let (template, roles, secrets) = (CONFIGURATION, &["coordinator", "worker"][..], &[][..]);
    let setup = Setup { folder, host, port, fleet, template, roles, secrets };
    let folder = setup.write().map_err(of_bus)?;
    Ok(next(&folder, &setup))
}

fn next(folder: &Path, setup: &Setup<'_>) -> String {
    let fleet = match setup.fleet == BusAddress::new("").fleet {
        true => String::new(),
        false => format!(" --fleet {}", setup.fleet),
    };
    let (url, folder) = (setup.url(), folder.display());
    format!(
        "Here:\n  \
           nats-server -c {folder}/nats-server.conf\n\
         On every machine that makes load, with copies of ca.pem and worker.secret:\n  \
           handfast worker {url}{fleet} --bus-ca ca.pem --bus-credentials worker.secret\n\
         Where the run is started, for example with two machines:\n  \
           handfast load TARGET --workers {url}{fleet} --machines 2 --bus-ca {folder}/ca.pem \
           --bus-credentials {folder}/coordinator.secret\n"
    )
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::PermissionsExt;

    use handfast_bus::PORT;

    use super::*;

    #[test]
    fn everything_is_filled_in_and_what_is_secret_is_kept() {
        let parent = tempfile::tempdir().unwrap();
        let folder = parent.path().join("bus");
        let next = setup(&folder, "bus.example", 14_222, "blue").unwrap();
        assert_eq!(next.matches("tls://bus.example:14222 --fleet blue ").count(), 2, "{next}");
        let read = |name: &str| fs::read_to_string(folder.join(name)).unwrap();
        let mode = |name: &str| fs::metadata(folder.join(name)).unwrap().permissions().mode() & 0o777;
        let configuration = read("nats-server.conf");
        let lines = configuration.lines().filter(|line| !line.starts_with('#'));
        assert!(!lines.collect::<String>().contains('@'), "{configuration}");
        assert!(
            configuration.contains("hf.blue.c.>") && !configuration.contains("hf.default."),
            "{configuration}"
        );
        assert!(configuration.contains("port: 14222\n"), "{configuration}");
        for secret in ["nats-server.conf", "server.key", "coordinator.secret", "worker.secret"] {
            assert_eq!(mode(secret), 0o600, "{secret}");
        }
        let password = read("worker.secret").trim().strip_prefix("worker:").unwrap().to_owned();
        assert!(password.len() > 60 && configuration.contains(&password));
        assert_ne!(read("coordinator.secret").split(':').nth(1), Some(password.as_str()));
    }

    #[test]
    fn a_fleet_that_no_subject_can_have_leaves_nothing_behind() {
        let parent = tempfile::tempdir().unwrap();
        let folder = parent.path().join("bus");
        assert!(setup(&folder, "bus.example", PORT, "a.>").unwrap_err().is_wrong_use());
        assert!(!folder.exists());
    }

    #[test]
    fn nothing_is_overwritten() {
        let folder = tempfile::tempdir().unwrap();
        setup(folder.path(), "10.0.0.5", PORT, "default").unwrap();
        let before = fs::read_to_string(folder.path().join("worker.secret")).unwrap();
        let refusal = setup(folder.path(), "10.0.0.5", PORT, "default").unwrap_err();
        assert!(refusal.is_wrong_use() && refusal.what.contains("not overwritten"), "{refusal}");
        assert_eq!(before, fs::read_to_string(folder.path().join("worker.secret")).unwrap());
    }

    #[test]
    fn an_address_stands_in_brackets() {
        let folder = tempfile::tempdir().unwrap();
        assert!(setup(folder.path(), "::1", PORT, "default").unwrap().contains("tls://[::1]:4222"));
    }
}
