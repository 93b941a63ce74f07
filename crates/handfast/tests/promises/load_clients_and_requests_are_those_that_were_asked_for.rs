//! Clients and requests are those that were asked for: a mix has its shares, each name its certificate, each request its
//! method, headers and body, as nginx sees them; and what is secret is in no report.

use super::support::certificates::authority;
use super::support::folder::Folder;
use super::support::load::{Ended, Load};
use super::support::servers::{ClientRequirements, Nginx};
use super::support::skip::needs;

const NAMES: [&str; 2] = ["a.example", "b.example"];

/// Number of those that fit.
fn number<T>(all: &[T], fits: impl Fn(&T) -> bool) -> f64 {
    all.iter().filter(|one| fits(one)).count() as f64
}

/// A share is exact to within a turn of each thread and what preparing the run took.
fn share(found: f64, all: f64, required: f64, ended: &Ended) {
    assert!((found - all * required).abs() <= 8.0, "{found} of {all}, expected {required}: {}", ended.all());
}

#[test]
fn a_mix_has_its_shares_and_each_name_its_certificate() {
    needs!("nginx");
    let (nginx, folder) = (Nginx::start_for(ClientRequirements::default(), &NAMES), Folder::new());
    let ca = folder.write("ca.pem", &authority().pem);
    let names = folder.write("names", "# names\n1 a.example\n3 b.example\n");
    let load = Load::at(format!("https://{}/", nginx.address))
        .with("-n 1 -c 4 --threads 2 -d 600ms --sni")
        .word(format!("@{}", names.display()))
        .file("--ca", &ca)
        .with("--mix")
        .word("share=20% name=old tls=1.2 groups=secp256r1,X25519")
        .with("--mix")
        .word("share=80% name=new tls=1.3 groups=X25519 resume=50%");
    let ended = load.run_well();
    let all = ended.count("/totals/transactions") as f64;
    assert!(all > 20.0, "{}", ended.all());
    assert_eq!(ended.text("/members/0/name"), "old", "{}", ended.all());
    let counts = |place: usize, what: &str| ended.count(&format!("/members/{place}/{what}"));
    share(counts(0, "connections") as f64, all, 0.2, &ended);
    let members: u64 = (0..2).map(|place| counts(place, "connections")).sum();
    let measured = ended.count("/totals/connections") - ended.count("/totals/warm_up_connections");
    assert_eq!(members, measured, "{}", ended.all());
    assert_eq!(
        (counts(0, "resumed"), counts(0, "failed"), counts(1, "failed")),
        (0, 0, 0),
        "{}",
        ended.all()
    );
    assert!(counts(1, "resumed") > 0 && counts(1, "full") > 0, "{}", ended.all());
    let handshakes = ended.count("/members/1/handshake/count");
    assert_eq!(handshakes, counts(1, "resumed") + counts(1, "full"), "{}", ended.all());
    let agreed = ended.value("/members/0/agreed").as_object().expect("a table");
    assert!(agreed.keys().all(|agreed| agreed.starts_with("TLSv1.2 ")), "{agreed:?}");
    assert!(ended.output.contains("Kinds of client"), "{}", ended.all());

    let requested = nginx.requests();
    let seen = requested.len() as f64;
    // Tickets are fetched by the one that resumes.
    let warm = ended.count("/totals/warm_up_connections") as f64;
    let old = number(&requested, |[_, version, ..]| version == "TLSv1.2");
    assert!((old - 1.0 - counts(0, "connections") as f64).abs() <= 2.0, "{old} of {seen}: {}", ended.all());
    let first = number(&requested, |[name, ..]| name == "a.example");
    assert!((first - seen / 4.0).abs() <= 8.0 + warm, "{first} of {seen}: {}", ended.all());
    assert_eq!(first + number(&requested, |[name, ..]| name == "b.example"), seen, "no other name was sent");
}

#[test]
fn requests_have_method_headers_body_and_weight() {
    needs!("nginx");
    let (nginx, folder) = (Nginx::start_for(ClientRequirements::default(), &NAMES), Folder::new());
    let urls = folder.write("urls", "3 /a\n\nPOST /b\nX-Mark: two\n");
    let report = folder.file("kept.json");
    let target = format!("https://{}/", nginx.address);
    let load = Load::at(&target)
        .with("-c 2 --threads 1 -d 400ms --sni a.example -H")
        .word("X-Mark: one")
        .word("--header=Authorization: Bearer geheim")
        .with("--body hello -X PUT --url")
        .word(format!("@{}", urls.display()));
    let ended = load.json(&report).run_well();
    let all = ended.count("/totals/exchanges") as f64;
    share(ended.count("/requests/0/done") as f64, all, 0.75, &ended);
    assert_eq!((ended.text("/requests/0/method"), ended.text("/requests/1/path")), ("PUT", "/b"));
    assert_eq!(
        ended.count("/requests/1/http_status/2xx"),
        ended.count("/requests/1/done"),
        "{}",
        ended.all()
    );
    assert!(ended.output.contains("POST /b"), "{}", ended.all());

    // Not even in the command line that it keeps; so it is wanted again to repeat the run.
    let kept = std::fs::read_to_string(&report).expect("it was written");
    assert!(!kept.contains("geheim") && kept.contains("authorization"), "the secret was kept");
    let again = || Load::words_alone().file("--replay", &report);
    let refused = again().run();
    assert_eq!(refused.code, Some(2), "{}", refused.all());
    assert!(
        refused.talk.contains("does not keep the value of the header `authorization`"),
        "{}",
        refused.all()
    );
    let repeated = again().word("-H").word("Authorization: Bearer anders").run_well();
    assert_eq!(repeated.text("/requests/1/method"), "POST", "{}", repeated.all());

    let requested = nginx.requests();
    let puts = number(&requested, |[.., method, path, length, mark]| {
        (method.as_str(), path.as_str(), length.as_str(), mark.as_str()) == ("PUT", "/a", "5", "one")
    });
    let posts = number(&requested, |[.., method, path, length, mark]| {
        (method.as_str(), path.as_str(), length.as_str(), mark.as_str()) == ("POST", "/b", "5", "two")
    });
    assert_eq!(puts + posts, requested.len() as f64, "{:?}", requested.first());
    assert!((posts - puts / 3.0).abs() <= 8.0, "{posts} and {puts}");
}

/// Requests that succeeded, of both rows.
fn ended_requests(ended: &Ended) -> u64 {
    ended.count("/requests/0/done") + ended.count("/requests/1/done")
}

#[test]
fn a_request_that_fails_has_a_row_of_its_own() {
    needs!("nginx");
    let nginx = Nginx::start_for(ClientRequirements::default(), &NAMES);
    let target = format!("https://{}/", nginx.address);
    let load = |url: &str| {
        let load = Load::at(&target).with("-c 1 --threads 1 -d 300ms --sni a.example -H Host:a.example");
        load.word("--url").word("9 /fine").word("--url").word(url)
    };
    // Each is tried before the run begins.
    let refused = load("/missing").run();
    assert_eq!(refused.code, Some(1), "{}", refused.all());
    assert!(refused.talk.contains("404 Not Found to GET /missing"), "{}", refused.all());
    let expected = load("/missing").with("--expect 2xx,404").run_well();
    let (all, missing) = (ended_requests(&expected), expected.count("/requests/1/done"));
    assert!(missing > 0 && expected.count("/requests/1/http_status/4xx") == missing, "{}", expected.all());
    assert_eq!((all, expected.count("/totals/failed")), (expected.count("/totals/exchanges"), 0));
    assert!(expected.output.contains("status 2xx, 404 expected"), "{}", expected.all());
    let wrong = load("https://elsewhere.example/").run();
    assert_eq!(wrong.code, Some(2), "{}", wrong.all());
    assert!(wrong.talk.contains("one run has one target"), "{}", wrong.all());
}
