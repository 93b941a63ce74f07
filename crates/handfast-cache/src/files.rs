//! Files of a folder as responses: everything except sockets and TLS.
//!
//! In: the target of a request, its head. Out: a head as HTTP/1 text and content in pieces, or the reason why there is no file. Folders are opened by their
//! descriptors; what a request names is opened below one, whatever links say. No call waits for the disk: its threads do.
//!
//! | question | file |
//! |---|---|
//! | which file a path names | `files/file_path.rs` |
//! | a folder; the file for a path; precompressed files | `files/folder.rs` |
//! | the file for a request; its content | `files/found_file.rs` |
//! | the head of its response | `files/response.rs` |
//! | media types | `files/media_type.rs` |

pub(crate) mod disk_threads;
pub(crate) mod file_path;
pub(crate) mod folder;
pub(crate) mod found_file;
pub(crate) mod media_type;
pub(crate) mod response;
#[cfg(test)]
mod tests;
