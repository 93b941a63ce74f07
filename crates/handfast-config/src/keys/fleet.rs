//! The keys of `[fleet]`: how machines that serve the same names find each other.

use crate::kind::*;
use crate::schema::section;

section! {
    /// Machines that serve the same names share ticket keys, so that a session of one resumes on any other, and, with `[acme]`, answers to
    /// challenges and certificates. They meet on a NATS server. Without it each goes on alone.
    FLEET = "fleet", "[fleet]";

    /// The fleet's name on the bus. Fleets with different names receive nothing from each other.
    FLEET_NAME: Token = "name", Token,
        default "\"default\"",
        why "one fleet on a bus is the usual case",
        example "\"web\"", elsewhere "fleet cluster cluster-name group";

    /// The URL of the NATS server. With `tls://` TLS is required in any case; a server that other machines can reach must require it.
    BUS: BusUrl = "bus", BusUrl,
        example "\"tls://bus.example.org:4222\"", elsewhere "nats url server servers nats-url broker";

    /// PEM file of the authorities that may sign the certificate of the NATS server.
    FLEET_CA: CredentialPath = "ca", CredentialPath,
        absent "those that this machine trusts",
        why "a server with a public name has a public certificate",
        example "\"bus-ca.pem\"", elsewhere "ca-file tls-ca trusted-ca";

    /// Starts TLS before the server's greeting: for a NATS server with `handshake_first: true`.
    BUS_TLS_FIRST: Switch = "tls-first", Switch,
        default "false",
        why "a NATS server without this setting greets first",
        example "true", elsewhere "handshake-first handshake_first tls_first";

    /// File with one line, `user:password`, for the NATS server.
    CREDENTIALS: CredentialPath = "credentials", CredentialPath,
        absent "no user; only a server on this machine alone is joined without",
        why "every reader of the configuration would have the password",
        example "\"machine.secret\"", elsewhere "user password creds auth";

    /// File with the secret of the fleet, 64 hexadecimal digits, the same on every machine. What machines say is sealed with it. Another
    /// secret makes them forget all keys that they share.
    SECRET: CredentialPath = "secret", CredentialPath,
        example "\"fleet.secret\"", elsewhere "key secret-file key-file shared-secret psk";

    /// This machine's name in messages and on pages of the others.
    MACHINE: Text = "machine", Text("text, such as `\"web-1\"`"),
        absent "the machine's host name",
        why "it is what people call it",
        example "\"web-1\"", elsewhere "node hostname node-name host id";
}
