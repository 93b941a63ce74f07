//! The files that the program writes or reads again while it serves, and whether the service user may do so.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use handfast_tls::ticket;
use rustix::fs::{Mode, OFlags};

use crate::trusted_path::folder_of;
use handfast_config::model::{AccessLog, Address, Config};

/// The files and folders that the program itself writes, and the unix sockets that it makes.
pub fn own_files(config: &Config) -> Vec<PathBuf> {
    let keys = key_files(config);
    let locks = keys.clone().map(ticket::lock_path);
    let log = match &config.access_log {
        AccessLog::File(path) => Some(path.as_path()),
        _ => None,
    };
    let addresses = config.services.iter().flat_map(|service| &service.listen).chain(&config.admin);
    let sockets = addresses.filter_map(|address| match address {
        Address::Unix(path) => Some(path.as_path()),
        Address::Ip(_) => None,
    });
    let upgrade = config.process.upgrade_socket.as_deref();
    let store = config.acme.as_ref().map(|acme| acme.folder.as_path());
    let caches = config.services.iter().filter_map(|service| service.http.as_ref()?.cache.as_ref());
    let caches = caches.map(|cache| cache.folder.as_path());
    let state = config.process.state_folder.as_deref();
    let own = keys.chain(log).chain(sockets).chain(upgrade).chain(store).chain(caches).chain(state);
    own.map(Path::to_path_buf).chain(locks).collect()
}

/// Warnings about what the present user must do with the files of a configuration, and cannot.
pub fn unreadable(config: &Config, files: &[PathBuf]) -> Vec<String> {
    let key_files = key_files(config);
    let folders: BTreeSet<&Path> = key_files.map(folder_of).collect();
    let is_read_only = |folder: &&Path| rustix::fs::access(*folder, rustix::fs::Access::WRITE_OK).is_err();
    let folders = folders.into_iter().filter(is_read_only).map(|folder| {
        format!(
            "{}: the user that serves cannot write there, so the ticket keys in it will not be rotated; give it to the \
             user",
            folder.display()
        )
    });
    // A file that does not exist yet, such as an OCSP response, is not a matter of permissions.
    let is_unreadable = |path: &&PathBuf| {
        // A FIFO in its place must not hold the start.
        let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
        let opened = rustix::fs::open(path.as_path(), flags, Mode::empty());
        opened.is_err_and(|error| error != rustix::io::Errno::NOENT)
    };
    let files = files.iter().filter(is_unreadable).take(10).map(|path| {
        format!(
            "{}: the user that serves cannot read it, so no reload will; give it to the user or its group",
            path.display()
        )
    });
    let mut files: Vec<_> = files.collect();
    if !config.process.private_keys_apart
        && let Some(last) = files.last_mut()
    {
        last.push_str(
            "\n  hint: with process.private-keys = \"separate-process\" files of certificates and keys can stay root's alone",
        );
    }
    folders.chain(files).collect()
}

fn key_files(config: &Config) -> impl Iterator<Item = &Path> + Clone {
    config.services.iter().filter_map(|service| service.tls.as_ref()?.tickets.key_source.file())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[expect(clippy::disallowed_methods, reason = "no other thread reads the file meanwhile")]
    fn a_file_that_may_come_later_is_not_called_unreadable() {
        let config = Config::embedded("/tmp/ca.pem".into());
        let folder = tempfile::tempdir().expect("a temporary folder");
        // A name with a file in place of a folder cannot be opened, also by root.
        let file = folder.path().join("file");
        std::fs::write(&file, "").expect("the folder is ours");
        let warnings = unreadable(&config, &[folder.path().join("web.pem.ocsp"), file.join("below")]);
        assert!(
            matches!(&warnings[..], [one] if one.contains("/file/below: the user that serves")),
            "{warnings:?}"
        );
    }
}
