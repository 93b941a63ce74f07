//! Memory of a connection.

use crate::path::Connection;
use crate::path::serve;
use handfast_leg::runtime::Engine;

/// Bytes of what a function returns.
fn size<I, F: Future>(_: impl Fn(I) -> F) -> usize {
    size_of::<F>()
}

/// Most of what an idle connection costs outside the TLS library. It is easily doubled unseen: by a value that is
/// moved from one async function to another, or that is still in scope where one waits.
#[test]
fn a_connection_of_ours_takes_a_kibibyte() {
    let task = size(serve::<Engine>);
    assert!(task <= 1024, "{task} bytes, of which {} for the connection", size_of::<Connection<Engine>>());
}
