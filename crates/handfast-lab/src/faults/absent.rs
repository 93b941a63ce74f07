//! Faults that are not tried here, and why: a table with a hole in it would look whole.

use super::report::Absent;

/// Each, and what looks after it instead.
const ABSENT: [(&str, &str); 11] = [
    (
        "messages packed behind a change of keys, at a wrong level",
        "needs a TLS library that breaks its own rules; tested in the library that is used",
    ),
    (
        "renegotiation, and floods of KeyUpdate",
        "the laboratory's own TLS does neither; tested in the library that is used",
    ),
    (
        "a ticket of one name offered for another",
        "the laboratory's clients keep tickets apart by name; the promise `a_ticket_never_crosses_a_policy` tries it",
    ),
    (
        "system calls that are interrupted or fail one by one",
        "needs strace; the promise `injected_errors_change_nothing` tries it",
    ),
    (
        "a limit on memory, on CPU time, on processes",
        "needs control groups, which a user namespace cannot make; the memory of each case is bounded and shown instead",
    ),
    ("the clock jumps", "the clock is the whole machine's: no namespace has its own"),
    (
        "names of backends that change, fail, or are not answered",
        "the resolver is the machine's; the promise `failing_backends_are_seen` tries it",
    ),
    ("an empty root (chroot)", "the program has no such setting"),
    ("a key process dies", "the program has none yet: keys are in the one process"),
    (
        "a binary upgrade that hands its sockets over",
        "the program has none; `restart-beside` tries what takes its place",
    ),
    (
        "a bug that panics in one connection",
        "nothing from outside is known to cause one; the program's own tests plant it",
    ),
];

/// All of them.
pub(super) fn absent() -> Vec<Absent> {
    let one = |(fault, why): (&str, &str)| Absent { fault: fault.to_owned(), why: why.to_owned() };
    ABSENT.into_iter().map(one).collect()
}
