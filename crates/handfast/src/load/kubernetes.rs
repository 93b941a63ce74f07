//! A Kubernetes Job that starts workers.
//!
//! In: the bus, the fleet, the number of workers. Out: YAML for `kubectl apply -f -`. It was never tested on a
//! cluster, and has a comment about that.

use crate::words::load::MachineWords;

/// The manifest.
pub(crate) fn job(words: &MachineWords, machines: u32) -> String {
    let url = words.workers.as_deref().unwrap_or_default();
    let fleet = words.bus.fleet.as_deref().unwrap_or("default");
    let mut arguments = vec![
        "worker".to_owned(),
        url.to_owned(),
        "--fleet".into(),
        fleet.into(),
        "--name".into(),
        "$(POD)".into(),
    ];
    let mut keys = Vec::new();
    for (option, file, key) in [
        ("--bus-ca", &words.bus.bus_ca, "bus-ca.pem"),
        ("--bus-credentials", &words.bus.bus_credentials, "bus-credentials"),
    ] {
        if let Some(file) = file {
            arguments.extend([option.to_owned(), format!("/etc/handfast/{key}")]);
            keys.push(format!("--from-file={key}={}", file.display()));
        }
    }
    let arguments: String =
        arguments.iter().map(|word| format!("            - {}\n", quoted(word))).collect();
    let (head, mounts, volumes) = if keys.is_empty() {
        (String::new(), "", "")
    } else {
        (format!("#   kubectl create secret generic handfast-bus {}\n", keys.join(" ")), MOUNTS, VOLUMES)
    };
    format!(
        "# Workers of handfast load; written by handfast {version}.\n\
         # NOT TESTED on a cluster: read it before you apply it. Put your own image in, and first, where it is named:\n\
         {head}\
         #   kubectl apply -f THIS\n\
         #   handfast load TARGET --workers {url} --fleet {fleet} --machines {machines}\n\
         apiVersion: batch/v1\n\
         kind: Job\n\
         metadata:\n\
         \x20 name: handfast-workers\n\
         spec:\n\
         \x20 parallelism: {machines}\n\
         \x20 completions: {machines}\n\
         \x20 backoffLimit: 0\n\
         \x20 # Workers wait for work until the job is deleted; after this long at the latest.\n\
         \x20 activeDeadlineSeconds: 14400\n\
         \x20 ttlSecondsAfterFinished: 3600\n\
         \x20 template:\n\
         \x20   metadata:\n\
         \x20     labels: {{app: handfast-worker}}\n\
         \x20   spec:\n\
         \x20     restartPolicy: Never\n\
         \x20     automountServiceAccountToken: false\n\
         \x20     # One worker on a machine: two would take each other's CPU.\n\
         \x20     affinity:\n\
         \x20       podAntiAffinity:\n\
         \x20         requiredDuringSchedulingIgnoredDuringExecution:\n\
         \x20           - topologyKey: kubernetes.io/hostname\n\
         \x20             labelSelector: {{matchLabels: {{app: handfast-worker}}}}\n\
         \x20     containers:\n\
         \x20       - name: worker\n\
         \x20         image: registry.example.org/handfast:{version}\n\
         \x20         args:\n{arguments}\
         \x20         env:\n\
         \x20           - name: POD\n\
         \x20             valueFrom: {{fieldRef: {{fieldPath: metadata.name}}}}\n\
         \x20         securityContext:\n\
         \x20           allowPrivilegeEscalation: false\n\
         \x20           readOnlyRootFilesystem: true\n\
         \x20           capabilities: {{drop: [ALL]}}\n{mounts}{volumes}",
        version = env!("CARGO_PKG_VERSION"),
    )
}

const MOUNTS: &str = "          volumeMounts:
            - {name: bus, mountPath: /etc/handfast, readOnly: true}
";
const VOLUMES: &str = "      volumes:
        - name: bus
          secret: {secretName: handfast-bus}
";

/// Any text as a YAML string: JSON strings are valid YAML.
fn quoted(word: &str) -> String {
    serde_json::Value::from(word).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn workers_are_started() {
        let words = MachineWords { workers: Some("nats://bus:4222".into()), ..MachineWords::default() };
        let text = job(&words, 4);
        assert!(text.contains("  parallelism: 4\n  completions: 4\n"), "{text}");
        assert!(text.contains("            - \"worker\"\n            - \"nats://bus:4222\"\n"), "{text}");
        assert!(text.contains("NOT TESTED"), "{text}");
        assert!(!text.contains("volume"), "{text}");
    }

    #[test]
    fn keys_come_from_a_secret() {
        let mut words = MachineWords { workers: Some("tls://bus:4222".into()), ..MachineWords::default() };
        words.bus.bus_ca = Some("ca.pem".into());
        let text = job(&words, 1);
        assert!(text.contains("--from-file=bus-ca.pem=ca.pem\n"), "{text}");
        assert!(text.contains("- \"--bus-ca\"\n            - \"/etc/handfast/bus-ca.pem\"\n"), "{text}");
        assert!(text.contains("      volumes:\n        - name: bus\n"), "{text}");
    }
}
