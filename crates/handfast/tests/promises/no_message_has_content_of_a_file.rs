//! No message, page or metric has content of a certificate, key, password, secret or ticket file, whatever is wrong with the file and
//! wherever it was named by mistake.
//!
//! Each damaged file has a marker inside, which is searched for in everything that the program writes.

use handfast_testkit::cases::{pairs, some};

use super::support::certificates::{authority, localhost};
use super::support::folder::Folder;
use super::support::http::{get, post};
use super::support::proxy::PROGRAM;
use super::support::tools::{Tool, handfast};
use super::support::*;

/// Marker that no output may have. It is valid base64, part of a name, and no word of ours.
const MARKER: &str = "MaRkErOfThEsEcReT";

/// The marker as text, in hexadecimal, and as a list of numbers, as `{:?}` writes bytes.
fn forms() -> [String; 3] {
    let bytes = &MARKER.as_bytes()[..8];
    [
        MARKER[..8].to_owned(),
        bytes.iter().map(|byte| format!("{byte:02x}")).collect(),
        bytes.iter().map(u8::to_string).collect::<Vec<_>>().join(", "),
    ]
}

fn assert_silent(what: &str, output: &str) {
    for form in forms() {
        assert!(!output.contains(&form), "{what}: the output has content of the file ({form}):\n{output}");
    }
}

/// Files that are damaged, of another kind, or no file of any kind; each with the marker.
fn damaged(labels: &[&str]) -> Vec<(String, Vec<u8>)> {
    let line = format!("MIIEvQIBADANBgkqhkiG9w0BAQ{MARKER}{MARKER}AoIBAQ");
    let section = |label: &str| format!("-----BEGIN {label}-----\n{line}\n{line}\n-----END {label}-----\n");
    let mut files: Vec<(String, Vec<u8>)> = Vec::new();
    for label in labels {
        let whole = section(label);
        for (way, text) in [
            ("not base64 of it", whole.clone()),
            ("without line ends", whole.replace('\n', "")),
            ("with CR alone", whole.replace('\n', "\r")),
            ("with blanks", whole.replace('\n', " ")),
            ("with a literal \\n", whole.replace('\n', "\\n")),
            ("cut", whole[..whole.len() / 2].to_owned()),
            ("with another END", whole.replace("END ", "END X")),
            ("with dashes missing", whole.replacen("-----\n", "----\n", 1)),
            ("with text before BEGIN", format!("{MARKER} {whole}")),
            ("indented", whole.replace('\n', "\n  ")),
            ("with a header", whole.replacen("-----\n", &format!("-----\nProc-Type: {MARKER}\n\n"), 1)),
        ] {
            files.push((format!("{label} {way}"), text.into_bytes()));
        }
    }
    for text in [
        format!("{MARKER}\n"),
        MARKER.to_string(),
        format!("{MARKER}:{MARKER}\n"),
        format!("{MARKER} {MARKER}\n"),
        format!("{MARKER}={MARKER}\n"),
        format!("{MARKER} = \"{MARKER}\"\n"),
        format!("password = \"{MARKER}\"\n"),
        format!("[{MARKER}]\nname = {MARKER}\n"),
        format!("alice:$2y$04${MARKER}\n{MARKER}:$apr1${MARKER}\nbob:{MARKER}\nbob:{MARKER}\n"),
        format!("handfast-ticket-keys 1\nkey {MARKER} made {MARKER} from 1 {MARKER}\n"),
        format!("key {MARKER}\n"),
        format!("{{\"key\": \"{MARKER}\", \"account\": \"{MARKER}\", \"schema\": \"{MARKER}\"}}"),
        format!("\"{MARKER}\""),
        format!("[\"{MARKER}\"]"),
        format!("-----BEGIN NATS USER JWT-----\n{MARKER}\n------END NATS USER JWT------\n"),
        format!("# {MARKER}\n\n;{MARKER}\n"),
        format!("server {{ listen {MARKER} \"{MARKER}; }}\n"),
        format!("option {MARKER}\n\"{MARKER}\n"),
        format!("user root password {MARKER}\nstats auth admin:{MARKER}\n"),
    ] {
        files.push((text.replace(MARKER, "…"), text.into_bytes()));
    }
    for beginning in [
        &b"\x30\x82\x01\x00"[..],
        b"\x30\x82\x01\x00\x02\x01\x03\x30\x20",
        b"\xff\xfe",
        b"\xef\xbb\xbf",
        b"\x00",
    ] {
        files.push((format!("bytes {beginning:?}"), [beginning, MARKER.as_bytes(), &[0xff, 0]].concat()));
    }
    files
}

/// Options of a configuration that name a file; `FILE` is its path.
const PLACES: [(&str, &str); 15] = [
    ("certificate", "certificate = \"FILE\"\n"),
    ("key", "certificate = \"web.crt\"\nkey = \"FILE\"\n"),
    ("folder", "certificate = \"FILE.d/\"\n"),
    ("staple", "certificate = \"FILE.pem\"\n"),
    (
        "client CAs",
        "certificate = \"web.pem\"\n[service.client-certificates]\nmode = \"request\"\nca = \"FILE\"\n",
    ),
    (
        "revocation list",
        "certificate = \"web.pem\"\n[service.client-certificates]\nmode = \"request\"\nca = \"web.crt\"\ncrl = \"FILE\"\n",
    ),
    ("backend CAs", "certificate = \"web.pem\"\n[service.backend-tls]\nca = \"FILE\"\n"),
    ("backend certificate", "certificate = \"web.pem\"\n[service.backend-tls]\ncertificate = \"FILE\"\n"),
    ("ticket keys", "certificate = \"web.pem\"\n[tickets]\nkey-file = \"FILE\"\n"),
    ("weak keys", "certificate = \"web.pem\"\n[process]\nweak-keys = [\"FILE\"]\n"),
    (
        "users",
        "certificate = \"web.pem\"\nmode = \"http\"\n[[service.route]]\npath = \"/\"\nbasic-auth = { file = \"FILE\" }\n",
    ),
    (
        "sticky",
        "certificate = \"web.pem\"\nmode = \"http\"\n[[service.route]]\npath = \"/\"\nsticky = { cookie = \"c\", key-file = \"FILE\" }\n",
    ),
    (
        "password",
        "certificate = \"web.pem\"\n[service.connect-through]\ntype = \"http\"\naddress = \"127.0.0.1:1\"\nuser = \"u\"\npassword-file = \"FILE\"\n",
    ),
    (
        "fleet",
        "certificate = \"web.pem\"\n[fleet]\nname = \"f\"\nbus = \"nats://127.0.0.1:1\"\nca = \"FILE\"\ncredentials = \"FILE\"\nsecret = \"FILE\"\n",
    ),
    (
        "account",
        "certificate = \"acme\"\nacme-names = [\"a.example\"]\n[acme]\naccept-terms-of-service = true\nfolder = \"store\"\ndirectory = \"https://127.0.0.1:1/d\"\nca = \"FILE\"\neab-key-id = \"k\"\neab-key-file = \"FILE\"\n",
    ),
];

const SERVICE: &str = "[[service]]\nname = \"web\"\nlisten = \"127.0.0.1:0\"\nbackend = \"127.0.0.1:9\"\n";

/// A folder with a good certificate.
fn place() -> Folder {
    let folder = Folder::new();
    folder.write("web.pem", localhost().combined());
    folder.write("web.crt", &localhost().certificate_pem);
    folder.write("file.pem", localhost().combined());
    folder.folder("file.d");
    folder
}

fn damage(folder: &Folder, content: &[u8]) -> String {
    for name in ["file", "file.d/one.pem", "file.d/two.key", "file.pem.ocsp"] {
        folder.write(name, content);
    }
    folder.file("file").display().to_string()
}

#[test]
fn a_check_of_a_damaged_file_does_not_show_it() {
    let folder = place();
    let damaged = damaged(&["PRIVATE KEY", "CERTIFICATE", "X509 CRL", MARKER]);
    for ((kind, content), (option, lines)) in pairs(&damaged, &PLACES, 4) {
        let file = damage(&folder, content);
        let text = format!("{SERVICE}{}", lines.replace("FILE", &file));
        let config = folder.write("handfast.toml", text).display().to_string();
        let ran = handfast(&["check", "-c", &config]);
        assert_silent(&format!("check of {option}, {kind}"), &ran.all());
    }
}

/// Commands that take a file for another kind of file: `FILE` is its path, `GOOD` that of a certificate with its key.
const COMMANDS: [&str; 30] = [
    "check -c FILE",
    "check --explain -c FILE",
    "proxy -c FILE",
    "proxy --stunnel FILE",
    "proxy --hitch FILE",
    "reload -c FILE",
    "doctor keys FILE",
    "import stunnel FILE",
    "import hitch FILE",
    "import nginx FILE",
    "import haproxy FILE",
    "import caddy FILE",
    "probe 127.0.0.1:1 --ca FILE",
    "probe 127.0.0.1:1 --insecure --client-certificate FILE",
    "probe 127.0.0.1:1 --client-certificate GOOD --client-key FILE",
    "load 127.0.0.1:1 --ca FILE --duration 1s",
    "load 127.0.0.1:1 --client-certificate FILE --duration 1s",
    "load 127.0.0.1:1 --client-certificate GOOD --client-key FILE --duration 1s",
    "load doctor --workers nats://127.0.0.1:1 --bus-credentials FILE",
    "load doctor --workers nats://127.0.0.1:1 --bus-ca FILE",
    "load --replay FILE",
    "compare FILE FILE",
    "doctor size --full 1 --from FILE",
    "weak-keys pack FILE -o /dev/null",
    "log FILE",
    "proxy-header FILE",
    "load https://127.0.0.1:1 --duration 1s --header @FILE",
    "load https://127.0.0.1:1 --duration 1s --url @FILE",
    "load https://127.0.0.1:1 --duration 1s --sni @FILE",
    "load https://127.0.0.1:1 --duration 1s --mix @FILE",
];

#[test]
fn a_file_that_is_given_to_the_wrong_option_is_not_shown() {
    let folder = place();
    let certificate = folder.file("web.pem").display().to_string();
    let damaged = damaged(&["PRIVATE KEY"]);
    let runs_silently = |command: &str, (kind, content): &(String, Vec<u8>)| {
        let file = damage(&folder, content);
        let words = command.replace("FILE", &file).replace("GOOD", &certificate);
        let ran = handfast(&words.split(' ').collect::<Vec<_>>());
        assert_silent(&format!("{command}, {kind}"), &ran.all());
    };
    for (damaged, command) in pairs(&damaged, &COMMANDS, 8) {
        runs_silently(command, damaged);
    }
    // To this option a line with one word is a host name, which may be shown.
    for damaged in damaged.iter().filter(|(kind, _)| kind.starts_with("PRIVATE KEY")) {
        runs_silently("probe --file FILE", damaged);
    }
}

/// A secret that is written into the configuration itself.
#[test]
fn a_secret_in_the_configuration_is_not_shown() {
    let folder = place();
    let pem = format!("-----BEGIN PRIVATE KEY-----\n{MARKER}\n-----END PRIVATE KEY-----");
    for line in [
        format!("password = \"{MARKER}\""),
        format!("password = {MARKER}"),
        MARKER.to_string(),
        format!("key = '''\n{pem}\n'''"),
        format!("key = \"{pem}\""),
        pem.clone(),
        format!("lisen = \"x\" # {MARKER}"),
        format!("# {MARKER}\nlisen = \"x\""),
        format!(
            "[service.connect-through]\ntype = \"http\"\naddress = \"u:{MARKER}@127.0.0.1:1\"\npassword = \"{MARKER}\""
        ),
        format!("[fleet]\nbus = \"nats://u:{MARKER}@\""),
        format!("[service.check]\ntype = \"send-expect\"\nsend = AUTH {MARKER}"),
        format!(
            "mode = \"http\"\n[[service.route]]\npath = \"/\"\nset-request-headers = [\"Authorization Basic: {MARKER}\"]"
        ),
        format!(
            "mode = \"http\"\n[[service.route]]\npath = \"/\"\nset-request-headers = \"authorization: Basic {MARKER} {{x}}\""
        ),
    ] {
        let config = folder.write("handfast.toml", format!("{SERVICE}certificate = \"web.pem\"\n{line}\n"));
        let config = config.display().to_string();
        for command in ["check", "proxy"] {
            let ran = handfast(&[command, "-c", &config]);
            assert_eq!(ran.code, Some(2), "{line}: {}", ran.all());
            assert_silent(&line, &ran.all());
        }
    }
}

#[test]
fn a_reload_of_a_damaged_file_shows_it_nowhere() {
    let folder = place();
    damage(&folder, localhost().combined().as_bytes());
    std::fs::remove_file(folder.file("file.pem.ocsp")).expect("it was written");
    let key = "0123456789abcdef0123456789abcdef";
    folder.write("sticky", key);
    let lines = "certificate = [\"file\", \"file.pem\"]\nmode = \"http\"\n[service.client-certificates]\nca = \"ca\"\nmode = \"request\"\n\
                 [service.backend-tls]\nca = \"ca\"\n[[service.route]]\npath = \"/\"\nsticky = { cookie = \"c\", key-file = \"sticky\" }\n[admin]\nlisten = \"127.0.0.1:0\"\n";
    folder.write("ca", &authority().pem);
    let config = folder.write("handfast.toml", format!("{SERVICE}{lines}")).display().to_string();
    let mut proxy = Tool::start(PROGRAM, &["proxy", "-c", &config]);
    let admin = wait_until("the admin page", || {
        assert!(!proxy.has_ended(), "{}", proxy.talk.so_far().join("\n"));
        proxy.talk.so_far().iter().find_map(|line| line.split("admin on ").nth(1)?.parse().ok())
    });
    let damaged = damaged(&["PRIVATE KEY", "OCSP RESPONSE", "RSA PRIVATE KEY", MARKER]);
    for (kind, content) in some(&damaged, 3) {
        damage(&folder, content);
        folder.write("ca", content);
        folder.write("sticky", content);
        let answer = post(admin, "/reload", "");
        assert_silent(&format!("answer to a reload, {kind}"), &answer.body);
        for path in ["/status.json", "/status", "/metrics"] {
            assert_silent(&format!("{path}, {kind}"), &get(admin, path, "*/*").body);
        }
    }
    folder.write("handfast.toml", format!("{SERVICE}password = \"{MARKER}\"\n{MARKER}\n"));
    assert_silent("answer to a reload of the configuration", &post(admin, "/reload", "").body);
    assert_silent("status", &get(admin, "/status.json", "*/*").body);
    let output = [proxy.talk.so_far(), proxy.output.so_far()].concat().join("\n");
    assert!(output.contains("is cut short"), "the log names the faults: {output}");
    assert_silent("log", &output);
}
