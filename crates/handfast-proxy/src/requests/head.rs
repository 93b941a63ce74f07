//! Parts that all layers of requests share: connections of HTTP/2, sources and sinks of content, reasons of failures and refusals.

pub(crate) mod content;
pub(crate) mod copy;
pub(crate) mod fault;
pub(crate) mod field_name;
pub(crate) mod h2_link;
pub(crate) mod h2_stream;
pub(crate) mod refusal;
pub(crate) mod sender;
pub(crate) mod trailers;
pub(crate) mod websocket;
