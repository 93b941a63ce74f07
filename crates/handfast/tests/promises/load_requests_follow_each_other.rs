//! Requests in order, with values from earlier answers: a client logs in, and uses what it got.

use super::support::backend::{Backend, Peer};
use super::support::load::Load;

/// Gives a session at /login, and serves its pages only.
fn serve(peer: &mut Peer) {
    let port = peer.stream.peer_addr().expect("it is connected").port();
    while let Some(head) = peer.head() {
        let login = head.starts_with("GET /login ");
        let right = head.starts_with(&format!("GET /pages/{port} "))
            && head.contains(&format!("\r\ncookie: s={port}\r\n"));
        let answer = match (login, right) {
            (true, _) => format!("HTTP/1.1 200 OK\r\nx-session: {port}\r\ncontent-length: 0\r\n\r\n"),
            (false, true) => "HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n".to_owned(),
            (false, false) => "HTTP/1.1 403 Forbidden\r\ncontent-length: 0\r\n\r\n".to_owned(),
        };
        peer.send(answer.as_bytes());
    }
}

#[test]
fn what_one_request_got_the_next_one_uses() {
    let server = Backend::start(serve);
    let load = Load::at(format!("http://{}/", server.address)).with("-c 3 -d 300ms --threads 1 --in-order");
    let load =
        load.with("--take s=header:X-Session --url /login --url /pages/{s} --header").word("Cookie: s={s}");
    let refused = load.run();
    // The header is in all requests, the one too that gives the value.
    assert_eq!(refused.code, Some(2), "{}", refused.all());
    assert!(refused.talk.contains("`{s}` is used by GET /login before it is taken"), "{}", refused.all());

    let folder = super::support::folder::Folder::new();
    let urls = folder.write("urls", "/login\n/pages/{s}\nCookie: s={s}\n");
    let load = Load::at(format!("http://{}/", server.address)).with("-c 3 -d 300ms --threads 1 --in-order");
    let load = load.with("--take s=header:X-Session --url").word(format!("@{}", urls.display()));
    let ended = load.run_well();
    assert_eq!(ended.count("/totals/failed"), 0, "{}", ended.all());
    assert!(ended.count("/requests/1/done") > 0, "{}", ended.all());
    assert!(ended.output.contains("2 requests in order on each connection"), "{}", ended.all());
}
