//! Tests for the served names that a session reports.

use super::*;

#[test]
fn a_session_knows_the_names_that_were_served() {
    for version in [&TLS12, &TLS13] {
        let pair = pair(version, true);
        let (_, hello) = pair.hello("localhost");
        assert!(pair.accept(&hello).served_names().is_none(), "nothing was served yet");
        for resumed in [false, true] {
            let talk = pair.talk("localhost").establish();
            assert_eq!(talk.session.agreed().resumed, Some(resumed));
            // As the path of a connection has it.
            let session: Box<dyn Session> = Box::new(talk.session);
            let names = session.served_names().expect("a certificate was served");
            assert!(names.covers("LOCALHOST") && names.covers("127.0.0.1") && !names.covers("other.example"));
        }
    }
}
