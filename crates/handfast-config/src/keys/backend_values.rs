//! The keys of a backend that is a table.

use super::other_words::BACKEND_WORDS;
use crate::kind::{Backend, CommandLine, Count, Switch};
use crate::schema::section;

section! {
    /// One backend with its share.
    BACKEND_TABLE = "backend", "{ address = …, weight = … }";

    /// Address of the backend.
    BACKEND_ADDRESS: Backend = "address", Backend,
        absent "an error, unless there is a `program`",
        why "a backend is somewhere",
        example "\"10.0.0.2:80\"", elsewhere BACKEND_WORDS;

    /// The program that serves each connection instead of an address, with its arguments. Its standard input and output are the
    /// connection; `REMOTE_HOST` and `REMOTE_PORT` are the client's address. It runs as the user that serves, outside of the
    /// sandbox. What it writes to standard error goes where the log goes.
    BACKEND_PROGRAM: CommandLine = "program", CommandLine,
        absent "the backend has an `address`",
        why "a server that runs already answers sooner than a program that is started",
        example "[\"/usr/bin/rsync\", \"--daemon\"]", elsewhere "exec execargs command run inetd spawn";

    /// Its share of new connections, in proportion to the others'; 0: none.
    WEIGHT: Count<u32> = "weight", Count(0..=256),
        default "1",
        why "all backends are equal by default",
        example "3", elsewhere "share priority w";

    /// Uses it only while no other one is up.
    BACKUP: Switch = "backup", Switch,
        default "false",
        why "a backend that is written is meant to be used",
        example "true", elsewhere "fallback spare standby";
}
