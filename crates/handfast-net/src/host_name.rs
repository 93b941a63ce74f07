//! The name of this machine: uname(2).

/// The host name, as it is without a domain or with one; bytes that are no UTF-8 are replaced.
///
/// **Cost**: one system call.
pub fn host_name() -> String {
    rustix::system::uname().nodename().to_string_lossy().into_owned()
}
