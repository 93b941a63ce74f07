//! `handfast probe --keep-alive` finds by trying how long a server keeps an idle connection, and for how many requests.

use serde_json::Value;

use super::support::certificates::localhost;
use super::support::folder::Folder;
use super::support::proxy::PROGRAM;
use super::support::skip::{needs, skipped};
use super::support::tools;

#[test]
fn an_idle_connection_and_a_busy_one_are_tried_until_the_server_ends_them() {
    needs!("nginx");
    if tools::run(PROGRAM, &["lab", "--quiet", "--", "true"], b"").code != Some(0) {
        skipped!("no lab");
    }
    let folder = Folder::new();
    let identity = localhost();
    let key = folder.write("key.pem", &identity.key_pem).display().to_string();
    let certificate = folder.write("cert.pem", &identity.certificate_pem).display().to_string();
    let place = folder.file("").display().to_string();
    let folders: String = ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"]
        .map(|kind| format!("{kind}_temp_path {place}/{kind};\n"))
        .concat();
    let config = format!(
        "daemon off; worker_processes 1; pid {place}/nginx.pid; error_log stderr crit;\nevents {{ }}\n\
         http {{ access_log off; {folders} keepalive_timeout 1s; keepalive_requests 7;\n\
         server {{ listen 8443 ssl; ssl_certificate {certificate}; ssl_certificate_key {key}; location / {{ return 200 hello; }} }} }}\n"
    );
    let config = folder.write("nginx.conf", config).display().to_string();
    let program = tools::find("nginx").expect("asked before").display().to_string();
    let server = format!("{program} -p {place} -e stderr -c {config}");
    let kept = |bound: &str| {
        let json = folder.file("report.json").display().to_string();
        let lab = ["lab", "--quiet", "--server", &server, "--", PROGRAM, "probe", "-vk", "--runs", "1"];
        let probe = ["--keep-alive", bound, "--json", &json, "https://server:8443/"];
        let ran = tools::run(PROGRAM, &[&lab[..], &probe].concat(), b"");
        assert_eq!(ran.code, Some(0), "{}", ran.all());
        let text = std::fs::read_to_string(&json).expect("it was written");
        let report: Value = serde_json::from_str(&text).expect("JSON");
        (report["http"]["kept"].clone(), ran.output)
    };
    let (found, text) = kept("30s");
    let idle = found["idle_ms"].as_f64().expect("the server has ended it");
    assert!(idle >= 900.0 && found["idle_ended_by"] == "close_notify", "{found}");
    assert_eq!((&found["requests"], &found["requests_ended"]), (&7.into(), &true.into()), "{found}");
    assert_eq!((&found["announced"], &found["bound_ms"]), (&true.into(), &30_000.0.into()), "{found}");
    assert!(
        text.contains("an idle connection is kept for") && text.contains("kept for 7 requests"),
        "{text}"
    );
    let (found, text) = kept("200ms");
    assert!(found["idle_ms"].is_null() && found["idle_ended_by"] == "nothing", "{found}");
    assert!(text.contains("an idle connection is still open after 200 ms"), "{text}");
    let wrong = tools::handfast(&["probe", "--keep-alive", "1s", "server:8443"]);
    assert_eq!((wrong.code, wrong.talk.contains("https://HOST/PATH")), (Some(2), true), "{}", wrong.all());
}
