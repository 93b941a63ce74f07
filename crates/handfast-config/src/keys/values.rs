//! The keys inside of values: tables in place of an address, a path or a text.

use crate::kind::{Again, Backend, CommandLine, Count, FilePath, Switch, Text};
use crate::schema::section;

/// Words of other programs for a backend, a certificate, and its key.
pub(super) const BACKEND_WORDS: &str = "connect upstream target server servers proxy-pass to forward remote";
pub(super) const CERTIFICATE_WORDS: &str =
    "cert certs crt pem-file pem-dir pem ssl-certificate tls certificate-file chain";
pub(super) const KEY_WORDS: &str = "private-key ssl-certificate-key certificate-key keyfile key-file";

section! {
    /// One certificate whose key is in a separate file.
    CERTIFICATE_PAIR = "certificate", "{ certificate = …, key = …, ocsp = … }";

    /// PEM file of the chain.
    PAIR_CERTIFICATE: FilePath = "certificate", FilePath,
        example "\"web.pem\"", elsewhere CERTIFICATE_WORDS;

    /// PEM file of the key.
    PAIR_KEY: FilePath = "key", FilePath,
        example "\"web.key\"", elsewhere KEY_WORDS;

    /// OCSP response to staple, DER or PEM. It is checked against the certificate, read again when it changes, and not stapled
    /// any more when its time is over. Nothing is fetched.
    PAIR_OCSP: FilePath = "ocsp", FilePath,
        absent "the file beside the certificate with `.ocsp` behind its name, if it is there",
        example "\"web.pem.ocsp\"", elsewhere "ssl_stapling_file";
}

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

section! {
    /// Bytes that are no text.
    HEX_TABLE = "hex", "{ hex = … }";

    /// The bytes, two digits each.
    HEX: Text = "hex", Text("hexadecimal digits, such as `\"0d0a\"`"),
        example "\"0d0a\"", elsewhere "bytes binary";
}
