//! What one worker thread owns. Nothing here is shared with other threads but what is counted.
//!
//! | question | file |
//! |---|---|
//! | its buffers, log, permits and phase | `context.rs` |
//! | the services as it serves them: rules, TLS servers, backends | `services.rs` |
//! | the thread that answers hellos for it in a crowd | `signer.rs` |

pub(crate) mod context;
pub(crate) mod services;
pub(crate) mod signer;
