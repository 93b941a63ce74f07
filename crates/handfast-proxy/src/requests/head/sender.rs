//! The sender of a request, where its route identifies it.

use handfast_http::http1::{WrittenHead, push_field};

/// Facts about the sender of a request.
#[derive(Debug, Default)]
pub(crate) struct Identified {
    pub(crate) user: Option<Box<str>>,
    /// Fields that backends receive of it.
    pub(crate) added: Vec<(Box<str>, Vec<u8>)>,
}

impl Identified {
    /// Writes the fields that backends receive.
    pub(crate) fn write(&self, out: &mut WrittenHead) {
        for (name, value) in &self.added {
            // A text that is no valid field value is left out.
            let _ = push_field(out, name, value);
        }
    }
}
