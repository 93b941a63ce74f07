//! Runs `openssl speed` for the same operations on this machine.
//!
//! In: our operations. Out: rows that both have. OpenSSL is run as a program, one algorithm after the other, for a second
//! each; its machine-readable lines (`-mr`) are read, and both count CPU time.

use std::io::{ErrorKind, Read};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{RecvTimeoutError, sync_channel};
use std::time::Duration;

use handfast_report::speed::{ComparedRow, Operation, What};

use handfast_report::ToolError;

/// Timeout of one run; two seconds are usual.
const TIMEOUT: Duration = Duration::from_secs(30);
/// Most output of a run.
const MAX_OUTPUT_BYTES: u64 = 1 << 20;

/// OpenSSL's word for an algorithm, ours, and what its figures are.
struct Row {
    word: &'static str,
    name: &'static str,
    kind: Measured,
}

/// Subject of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Measured {
    /// Signatures and verifications.
    Signature,
    /// Secrets from a key share that is there already: our agreement.
    Agreement,
    /// Records.
    Cipher(u32),
    /// A hash.
    Hash(u32),
}

const fn row(word: &'static str, name: &'static str, kind: Measured) -> Row {
    Row { word, name, kind }
}

const ROWS: [Row; STEPS] = [
    row("rsa2048", "RSA-2048", Measured::Signature),
    row("rsa3072", "RSA-3072", Measured::Signature),
    row("rsa4096", "RSA-4096", Measured::Signature),
    row("ecdsap256", "ECDSA-P256", Measured::Signature),
    row("ecdsap384", "ECDSA-P384", Measured::Signature),
    row("ed25519", "Ed25519", Measured::Signature),
    row("ecdhx25519", "X25519", Measured::Agreement),
    row("ecdhp256", "P-256", Measured::Agreement),
    row("ecdhp384", "P-384", Measured::Agreement),
    row("aes-128-gcm", "AES-128-GCM", Measured::Cipher(16_384)),
    row("aes-128-gcm", "AES-128-GCM", Measured::Cipher(1_024)),
    row("aes-256-gcm", "AES-256-GCM", Measured::Cipher(16_384)),
    row("aes-256-gcm", "AES-256-GCM", Measured::Cipher(1_024)),
    row("chacha20-poly1305", "ChaCha20-Poly1305", Measured::Cipher(16_384)),
    row("chacha20-poly1305", "ChaCha20-Poly1305", Measured::Cipher(1_024)),
    row("sha256", "SHA-256", Measured::Hash(16_384)),
    row("sha256", "SHA-256", Measured::Hash(1_024)),
];
/// Runs of the program.
pub(super) const STEPS: usize = 17;

/// The program's name and version.
///
/// **Errors**: it is not installed, or is another one of that name.
pub(super) fn version() -> Result<String, ToolError> {
    let output = run(&["version"])?;
    let first = output.lines().next().unwrap_or_default().trim().to_owned();
    if is_openssl(&first) {
        // The library's own version follows in brackets, as a rule the same.
        return Ok(first.split(" (").next().unwrap_or(&first).to_owned());
    }
    Err(ToolError::failed(format!(
        "compare with openssl: `openssl version` says {:?}, expected OpenSSL 1.1.1 or later",
        first.chars().take(60).collect::<String>()
    )))
}

/// LibreSSL and others have the same program name, and other figures.
fn is_openssl(version: &str) -> bool {
    let number = version.strip_prefix("OpenSSL ").and_then(|rest| rest.split(' ').next());
    number.is_some_and(|number| number.starts_with("1.1.1") || !number.starts_with(['0', '1']))
}

/// Runs it for every row that ours has too. It calls `say` before each.
///
/// **Errors**: a run that failed, or whose figures are not understood.
pub(super) fn compare(ours: &[Operation], say: &mut dyn FnMut(&str)) -> Result<Vec<ComparedRow>, ToolError> {
    let mut rows = Vec::new();
    for row in &ROWS {
        say(&format!("openssl speed {}", row.word));
        let output = run(&arguments(row).iter().map(String::as_str).collect::<Vec<_>>())?;
        let figures = figures(&output, row.kind).ok_or_else(|| {
            ToolError::failed(format!(
                "compare with openssl: `openssl speed {}` gave no figures that are understood, expected a line +F…",
                row.word
            ))
        })?;
        rows.extend(figures.into_iter().filter_map(|(what, bytes, theirs)| {
            let same = |operation: &&Operation| {
                (operation.what, &*operation.name, operation.bytes) == (what, row.name, bytes)
            };
            let ours = ours.iter().find(same)?.per_second;
            Some(ComparedRow { what, name: row.name.into(), bytes, ours, theirs, ratio: ours / theirs })
        }));
    }
    Ok(rows)
}

fn arguments(row: &Row) -> Vec<String> {
    let mut arguments: Vec<String> = ["speed", "-seconds", "1", "-mr"].map(str::to_owned).to_vec();
    match row.kind {
        Measured::Signature | Measured::Agreement => {}
        Measured::Cipher(bytes) => {
            arguments.extend(["-bytes".into(), bytes.to_string(), "-aead".into(), "-evp".into()])
        }
        Measured::Hash(bytes) => arguments.extend(["-bytes".into(), bytes.to_string(), "-evp".into()]),
    }
    arguments.push(row.word.into());
    arguments
}

/// Parses a run's last line: operations a second, of one or two kinds.
fn figures(output: &str, kind: Measured) -> Option<Vec<(What, Option<u32>, f64)>> {
    let line = output.lines().rev().find(|line| line.starts_with("+F"))?;
    let fields: Vec<&str> = line.trim().split(':').collect();
    let number = |place: usize| {
        fields
            .get(place)
            .and_then(|field| field.parse().ok())
            .filter(|rate: &f64| rate.is_finite() && *rate > 0.0)
    };
    match (kind, *fields.first()?) {
        // +F2:place:bits:signatures:verifications (RSA), +F4 (ECDSA) likewise; +F6 has a name in front of its figures.
        (Measured::Signature, "+F2" | "+F4") => {
            Some(vec![(What::Sign, None, number(3)?), (What::Verify, None, number(4)?)])
        }
        (Measured::Signature, "+F6") => {
            Some(vec![(What::Sign, None, number(4)?), (What::Verify, None, number(5)?)])
        }
        // +F5:place:bits:operations:seconds
        (Measured::Agreement, "+F5") => Some(vec![(What::Agree, None, number(3)?)]),
        // +F:place:name:bytes a second
        (Measured::Cipher(bytes), "+F") => {
            Some(vec![(What::Seal, Some(bytes), number(3)? / f64::from(bytes))])
        }
        (Measured::Hash(bytes), "+F") => Some(vec![(What::Hash, Some(bytes), number(3)? / f64::from(bytes))]),
        _ => None,
    }
}

/// Runs the program to its end; what it wrote to standard output.
fn run(arguments: &[&str]) -> Result<String, ToolError> {
    let words = arguments.join(" ");
    let child = Command::new("openssl")
        .args(arguments)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .map_err(|error| {
            let refusal = ToolError::failed(format!("compare with openssl: start openssl: {error}"));
            match error.kind() {
                ErrorKind::NotFound => {
                    refusal.hint("install it (Debian: apt-get install openssl), or leave out --compare")
                }
                _ => refusal,
            }
        })?;
    let wrong = |what: &str| ToolError::failed(format!("compare with openssl: `openssl {words}` {what}"));
    finish(child, TIMEOUT).map_err(wrong)
}

/// Waits for a program, which is ended when it takes too long.
fn finish(mut child: Child, timeout: Duration) -> Result<String, &'static str> {
    let output = child.stdout.take();
    let (sender, hear) = sync_channel(1);
    let reader = std::thread::Builder::new().name("openssl".into()).spawn(move || {
        let mut text = String::new();
        let read = output.map(|output| output.take(MAX_OUTPUT_BYTES).read_to_string(&mut text));
        // A caller that does not wait any more has reported that.
        let _ = sender.send(read.is_some_and(|read| read.is_ok()).then_some(text));
    });
    let text = match reader.map(|_| hear.recv_timeout(timeout)) {
        Ok(Ok(text)) => text.ok_or("printed something that is not text"),
        Ok(Err(RecvTimeoutError::Timeout)) => Err("took too long, and was ended"),
        Ok(Err(RecvTimeoutError::Disconnected)) | Err(_) => Err("its output could not be read"),
    };
    if text.is_err() {
        // The process has already ended.
        let _ = child.kill();
    }
    // Its output has ended, or it was killed: it is about to be over.
    let status = child.wait().map_err(|_| "could not be waited for")?;
    let text = text?;
    if status.success() { Ok(text) } else { Err("failed") }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RSA: &str = "+DTP:2048:private:rsa:1\n+R1:1673:2048:0.71\n+DTP:2048:public:rsa:1\n+R2:15011:2048:0.37\n\
                       +F2:2:2048:2356.338028:40570.270270\n";
    const ECDSA: &str =
        "+DTP:256:sign:ecdsa:1\n+R5:4363:256:0.16\n+R6:980:256:0.10\n+F4:3:256:27268.750000:9800.000000\n";
    const ECDH: &str = "+DTP:253::ecdh:1\n+R7:15857:253:0.90\n+F5:22:253:17618.888889:0.000057\n";
    const ED25519: &str =
        "+R8:10721:253:Ed25519:0.93\n+R9:4356:253:Ed25519:0.94\n+F6:0:253:Ed25519:11527.956989:4634.042553\n";
    const GCM: &str = "+DT:AES-128-GCM:1:16384\n+R:159574:AES-128-GCM:0.850000\n+H:16384\n+F:25:AES-128-GCM:3075835783.53\n";

    #[test]
    fn figures_are_read() {
        let rates =
            |output, kind| figures(output, kind).map(|all| all.iter().map(|one| one.2).collect::<Vec<_>>());
        assert_eq!(rates(RSA, Measured::Signature), Some(vec![2356.338028, 40570.27027]));
        assert_eq!(rates(ECDSA, Measured::Signature), Some(vec![27268.75, 9800.0]));
        assert_eq!(rates(ED25519, Measured::Signature), Some(vec![11527.956989, 4634.042553]));
        assert_eq!(rates(ECDH, Measured::Agreement), Some(vec![17618.888889]));
        assert_eq!(rates(GCM, Measured::Cipher(16_384)), Some(vec![3075835783.53 / 16_384.0]));
    }

    #[test]
    fn what_is_not_understood_is_no_figure() {
        assert_eq!(figures("", Measured::Signature), None);
        assert_eq!(figures(RSA, Measured::Agreement), None, "the wrong run");
        assert_eq!(figures("+F2:2:2048:nan:1.0", Measured::Signature), None);
        assert_eq!(figures("+F2:2:2048:0.0:1.0", Measured::Signature), None);
        assert_eq!(figures("+F2:2:2048", Measured::Signature), None);
        assert_eq!(figures("+F5:22:253:inf:0.0", Measured::Agreement), None);
    }

    #[test]
    fn rows_are_those_of_our_report() {
        let act = |row| match row {
            crate::speed::Row::Act(act, _) => Some(crate::speed::names(act)),
            crate::speed::Row::Handshake(..) => None,
        };
        let ours: Vec<_> = crate::speed::rows().into_iter().filter_map(act).collect();
        for row in &ROWS {
            let names = match row.kind {
                Measured::Signature => (What::Sign, row.name, None),
                Measured::Agreement => (What::Agree, row.name, None),
                Measured::Cipher(bytes) => (What::Seal, row.name, Some(bytes)),
                Measured::Hash(bytes) => (What::Hash, row.name, Some(bytes)),
            };
            assert!(ours.contains(&names), "{names:?}");
        }
    }

    #[test]
    fn others_of_that_name_are_distinguished() {
        assert!(is_openssl("OpenSSL 3.0.19 27 Jan 2026 (Library: OpenSSL 3.0.19 27 Jan 2026)"));
        assert!(is_openssl("OpenSSL 1.1.1w  11 Sep 2023") && is_openssl("OpenSSL 4.0.0 1 Apr 2026"));
        for other in ["LibreSSL 3.3.6", "OpenSSL 1.0.2k-fips", "OpenSSL 0.9.8", "", "AWS-LC 1.50"] {
            assert!(!is_openssl(other), "{other}");
        }
    }

    #[test]
    fn a_program_that_hangs_is_ended() {
        let start = |script: &str| {
            let mut command = Command::new("sh");
            command.args(["-c", script]).stdout(Stdio::piped()).stdin(Stdio::null());
            command.spawn().expect("every system has sh")
        };
        assert_eq!(finish(start("echo hello"), TIMEOUT).as_deref(), Ok("hello\n"));
        assert_eq!(finish(start("exit 3"), TIMEOUT), Err("failed"));
        assert_eq!(
            finish(start("exec sleep 60"), Duration::from_millis(50)),
            Err("took too long, and was ended")
        );
    }
}
