//! Names of backends: a server of names that fails, knows nothing, is slow, or changes its mind.

use std::net::Ipv4Addr;
use std::time::{Duration, Instant};

use handfast_lab::run::pause;

use super::connect::in_vain;
use crate::case::{Case, case};
use crate::error::{CaseError, broken};
use crate::mode::Mode;
use crate::resolver::{LATE_DELAY, QueryHandling, Resolver};
use crate::setup::{Setup, USUAL};
use crate::stage::Stage;

const SAME: &str = "names are found in the same way";
const NAMED: Setup = Setup { backend: "\"backend.example:9000\"", ..USUAL };

pub(super) const CASES: &[Case] = &[
    named(
        "name-fails",
        (
            "the DNS server fails, then answers that the name does not exist",
            "the last known address stays in use, and the log names the cause",
        ),
        fails,
    ),
    named(
        "name-unanswered",
        (
            "DNS answers for a backend's name come 1.5 s late, then not at all",
            "clients are served at once, with the last known address",
        ),
        unanswered,
    ),
    named(
        "name-changes",
        (
            "a backend's name gets another address",
            "new clients go there, and connections to the old address continue",
        ),
        changes,
    ),
    named(
        "name-unknown",
        (
            "a backend's name does not exist when the proxy starts, and exists later",
            "earlier clients see no clean end, and later clients are served",
        ),
        unknown,
    ),
];

const fn named(
    name: &'static str,
    what: (&'static str, &'static str),
    play: fn(&mut Stage) -> Result<(), CaseError>,
) -> Case {
    case(name, "connect", what, play)
        .only(Mode::is_a_path_of_its_own, SAME)
        .with(NAMED)
        .unstarted()
        .handfast_only("its log shows what became of a query")
}

/// A server of names that knows the backend, and a proxy that asks it.
fn known(stage: &mut Stage, answers: QueryHandling) -> Result<(Resolver, Ipv4Addr), CaseError> {
    let address = *stage.backend_at.ip();
    let resolver = Resolver::start(&stage.place, answers, address)?;
    stage.start(None)?;
    Ok((resolver, address))
}

fn fails(stage: &mut Stage) -> Result<(), CaseError> {
    let (resolver, address) = known(stage, QueryHandling::Known)?;
    let mut queries = 0;
    for (answers, line) in
        [(QueryHandling::Failing, "stays in use"), (QueryHandling::Unknown, "there is no such name")]
    {
        resolver.answer(answers, address);
        stage.program()?.wait_for_line(line)?;
        queries += resolver.query_count();
        stage.serve()?;
    }
    resolver.answer(QueryHandling::Known, address);
    stage.program()?.wait_for_line("works again")?;
    stage.happened(format!("{queries} questions failed"));
    stage.names = Some(resolver);
    Ok(())
}

fn unanswered(stage: &mut Stage) -> Result<(), CaseError> {
    let begun = Instant::now();
    let (resolver, address) = known(stage, QueryHandling::Late)?;
    let took = begun.elapsed();
    if took < LATE_DELAY {
        return Err(CaseError::Lab(format!("it served after {took:?}, before an answer had come")));
    }
    resolver.answer(QueryHandling::Silent, address);
    let begun = Instant::now();
    while resolver.query_count() == 0 {
        stage.serve()?;
        if begun.elapsed() > Duration::from_secs(30) {
            return broken("names are not asked for any more");
        }
        pause();
    }
    let served = Instant::now();
    stage.serve()?;
    if served.elapsed() > Duration::from_secs(5) {
        return broken(format!("a client waited {:?} for a name", served.elapsed()));
    }
    stage.happened(format!(
        "answers came {LATE_DELAY:?} late, and {} questions found none",
        resolver.query_count()
    ));
    stage.names = Some(resolver);
    Ok(())
}

fn changes(stage: &mut Stage) -> Result<(), CaseError> {
    const TIMES: usize = 5;
    let (resolver, before) = known(stage, QueryHandling::Known)?;
    let (mut client, mut backend) = stage.pair()?;
    let old = stage.backend.take();
    let accepted = || old.as_ref().map(crate::backend::Backend::accepted);
    let at_old = accepted();
    let after = stage.place.next_peer()?;
    stage.backend_at.set_ip(after);
    stage.open_backend()?;
    resolver.answer(QueryHandling::Known, after);
    stage.program()?.wait_for_line(&format!("resolves to {after} now"))?;
    for _ in 0..TIMES {
        stage.serve()?;
    }
    if accepted() != at_old {
        return broken("a new connection went to the old address");
    }
    client.try_send(b"still here")?;
    backend.expect(b"still here")?;
    stage.happened(format!("the address was {before}, then {after}; {TIMES} clients came then"));
    stage.names = Some(resolver);
    stage.finish(client, backend)
}

fn unknown(stage: &mut Stage) -> Result<(), CaseError> {
    let address = *stage.backend_at.ip();
    let resolver = Resolver::start(&stage.place, QueryHandling::Unknown, address)?;
    stage.launch(None)?;
    let ending = in_vain(stage)?;
    stage.record_of(&["name-not-resolved", "no-backend"])?;
    stage
        .happened(format!("{} queries found no name; the client received: {ending}", resolver.query_count()));
    resolver.answer(QueryHandling::Known, address);
    stage.program()?.wait_for_line("works again")?;
    stage.expect(&["name-not-resolved", "no-backend"]);
    stage.names = Some(resolver);
    stage.begins()
}
