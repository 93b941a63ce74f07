//! The keys inside of the values of a route: redirects and responses.

use crate::kind::{Count, MediaType, RedirectStatus, RedirectTarget, Text};
use crate::schema::section;

section! {
    /// Target of the redirect.
    REDIRECT_TABLE = "redirect", "{ to = …, status = … }";

    /// The target. Variables are in braces: `{host}`, `{target}` (the path and the query as the client sent them), `{path}` (without the
    /// query), `{scheme}`, and those of `set-request-headers`.
    REDIRECT_TARGET: RedirectTarget = "to", RedirectTarget,
        example "\"https://www.example.org{target}\"", elsewhere "location url target return";

    /// The status. 301 and 308 may be kept by browsers for ever, and 307 and 308 keep the method.
    REDIRECT_STATUS: RedirectStatus = "status", RedirectStatus,
        default "308",
        why "the target is meant to stay, and a form that was sent is sent again",
        example "302", elsewhere "code";
}

section! {
    /// The response to the requests of a route.
    RESPOND_TABLE = "respond", "{ status = …, content = … }";

    /// Its status.
    RESPOND_STATUS: Count<u16> = "status", Count(200..=599),
        example "503", elsewhere "code return";

    /// Its content.
    RESPOND_CONTENT: Text = "content", Text("text"),
        absent "it has no content",
        why "a status says enough to programs",
        example "\"Back at noon.\"", elsewhere "body text message lf-string string";

    /// The type of its content.
    RESPOND_TYPE: MediaType = "type", MediaType,
        absent "`text/plain; charset=utf-8`",
        why "a text is what is written most",
        example "\"text/html\"", elsewhere "content-type default-type";
}
