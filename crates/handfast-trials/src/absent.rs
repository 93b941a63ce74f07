//! Faults that are not tried here, and why: a table with a hole in it would look whole.

use crate::report::Absent;

/// Each, and what looks after it instead.
const ABSENT: [(&str, &str); 8] = [
    (
        "a ticket of one name offered for another",
        "the laboratory's clients keep tickets apart by name; the promise `a_ticket_never_crosses_a_policy` tries it",
    ),
    (
        "system calls that are interrupted or fail one by one",
        "needs strace; the promise `injected_errors_change_nothing` tries it",
    ),
    (
        "a limit on CPU time or on processes, memory that is used up",
        "the first two need control groups, which a user namespace cannot make; without memory the library that gives it ends the program",
    ),
    ("an empty root (chroot)", "the program has no such setting"),
    (
        "a key process dies",
        "keys are in the one process unless asked for otherwise; the promises of `private_keys_are_not_where_the_network_is` try it",
    ),
    (
        "faults while one process hands its sockets to the next (`handfast upgrade`)",
        "the promise `an_upgrade_loses_nothing` tries them; `restart-beside` tries two processes side by side",
    ),
    (
        "requests over HTTP/2",
        "the laboratory's peers speak HTTP/1.1; the program's own tests play both versions on both sides over memory, in thousands of orders",
    ),
    (
        "a bug that panics in one connection",
        "nothing from outside is known to cause one; the program's own tests plant it",
    ),
];

/// All of them.
pub(crate) fn absent() -> Vec<Absent> {
    let one = |(fault, why): (&str, &str)| Absent { fault: fault.to_owned(), why: why.to_owned() };
    ABSENT.into_iter().map(one).collect()
}
