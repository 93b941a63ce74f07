//! HTTP requests of services.

use super::*;

/// Of `ended` requests, a quarter with status 5xx.
fn with_requests(ended: u64) -> Value {
    let mut whole = status(1, 1_000);
    whole["services"][0]["requests"] = json!({
        "by_status": { "2xx": ended - ended / 4, "5xx": ended / 4 }, "open": { "h2": 5, "http/1.1": 2 },
    });
    whole
}

#[test]
fn requests_have_a_line_and_columns() {
    let mut model = Model::new("here".into());
    for (at, ended) in [(0.0, 100), (10.0, 500)] {
        let seen = Seen::read(&with_requests(ended).to_string()).expect("a status");
        model.answered(at, seen);
    }
    let seen = text(&model, 160, 24);
    assert!(seen.contains("40.0/s ended, 7 open, 25.0 % 5xx"), "{seen}");
    let row = seen.lines().find(|line| line.trim_start().starts_with("web ")).expect("a row");
    assert!(row.contains("40.0/s  25.0 %"), "{row}");
}

#[test]
fn the_first_moment_has_the_rates_of_requests() {
    let mut whole = with_requests(400);
    whole["rates"]["over_seconds"] = 50.0.into();
    whole["recent"]["over_seconds"] = 50.0.into();
    whole["recent"]["services"]["web"]["requests"]["by_status"] = json!({ "2xx": 150, "5xx": 50 });
    let mut model = Model::new("here".into());
    model.answered(0.0, Seen::read(&whole.to_string()).expect("a status"));
    let seen = text(&model, 160, 24);
    assert!(seen.contains("4.00/s ended, 7 open, 25.0 % 5xx"), "{seen}");
}

#[test]
fn services_that_relay_bytes_have_none() {
    let seen = text(&model(), 160, 24);
    assert!(!seen.contains(" ended, ") && !seen.contains("% 5xx"), "{seen}");
}
