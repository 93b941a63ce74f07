//! The keys of a program that is the client.

use crate::kind::{Again, CommandLine};
use crate::schema::section;

section! {
    /// A program that is the only client of a service.
    CLIENT_TABLE = "only-client", "{ program = …, again = … }";

    /// The program with its arguments. It is started when the service can be used, as the user that serves and outside of the
    /// sandbox. Its standard input and output are the connection.
    CLIENT_PROGRAM: CommandLine = "program", CommandLine,
        example "[\"/usr/bin/fetch\", \"-v\"]", elsewhere "exec command run";

    /// Starts it again when it has ended: after a second (`true`), or after this duration.
    CLIENT_AGAIN: Again = "again", Again,
        default "false",
        why "most programs end when they are done",
        example "\"10s\"", elsewhere "retry restart respawn";
}
