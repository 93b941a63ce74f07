//! The values of parameters that the operator names (`redact-query`) are in no line of the access log, in either format, and in nothing that
//! the admin page shows.

use super::support::http;
use super::support::*;

fn config(format: &str) -> String {
    format!(
        "[admin]\nlisten = \"127.0.0.1:0\"\n[access-log]\nto = \"stdout\"\nformat = \"{format}\"\nredact-query = [\"token\", \"key\"]\n\
         [[service]]\nname = \"web\"\nlisten = \"127.0.0.1:0\"\nclient-tls = false\nmode = \"http\"\n\
         [[service.route]]\npath = \"/broken\"\nbackend = \"127.0.0.1:1\"\n\
         [[service.route]]\nrespond = {{ status = 200, content = \"{{}}\" }}\n"
    )
}

#[test]
fn lines_have_three_stars_in_their_place() {
    for format in ["json", "combined"] {
        let proxy = Proxy::start(config(format));
        for path in ["/open?a=1&token=hunter2&b=3", "/broken?T%4Fken=hunter2", "/bad?key=hunter2"] {
            let request = format!(
                "GET {path} HTTP/1.1\r\nHost: localhost\r\nReferer: https://localhost/?key=hunter2\r\nConnection: close\r\n\r\n"
            );
            http::exchange(proxy.address(), &request);
        }
        let has = |text: &str| proxy.output.so_far().iter().any(|line| line.contains(text));
        for shown in ["/open?a=1&token=***&b=3", "/broken?T%4Fken=***", "/bad?key=***"] {
            wait_until(shown, || has(shown).then_some(()));
        }
        let is_combined = format == "combined";
        assert_eq!(has("https://localhost/?key=***"), is_combined, "only that format has it");
        let status =
            ["/status", "/status.json", "/open"].map(|page| http::get(proxy.admin(), page, "*/*").body);
        let everything =
            [proxy.output.so_far().join("\n"), proxy.talk.so_far().join("\n"), status.join("\n")];
        assert!(everything.iter().all(|text| !text.contains("hunter2")), "{everything:#?}");
        assert!(everything[2].contains("/broken"), "a failed request is on the page: {}", everything[2]);
    }
}
