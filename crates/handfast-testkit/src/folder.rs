//! A folder of a test's own, gone when the test ends. Files in it are readable by their owner alone, as keys have to be.

use std::fs::{File, OpenOptions};
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

/// A temporary folder.
pub struct Folder(tempfile::TempDir);

impl Default for Folder {
    fn default() -> Self {
        Self::new()
    }
}

impl Folder {
    /// An empty folder.
    pub fn new() -> Self {
        Self(
            tempfile::Builder::new().prefix("handfast-").tempdir().expect("the temporary folder is writable"),
        )
    }

    /// Its path.
    pub fn path(&self) -> &Path {
        self.0.path()
    }

    /// The path of a file in it, which need not exist.
    pub fn file(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    /// Writes a file in place, as an editor or `cat >` does it: readers can see half of it.
    pub fn write(&self, name: &str, text: impl AsRef<[u8]>) -> PathBuf {
        let path = self.file(name);
        create(&path).write_all(text.as_ref()).expect("the temporary folder has room");
        path
    }

    /// Replaces a file at once, as it should be done.
    pub fn replace(&self, name: &str, text: impl AsRef<[u8]>) -> PathBuf {
        // Not beside the file: in a folder of certificates that would be one more.
        let aside = self.write(".aside", text);
        let path = self.file(name);
        std::fs::rename(aside, &path).expect("both names are on one file system");
        path
    }

    /// A folder in it.
    pub fn folder(&self, name: &str) -> PathBuf {
        let path = self.file(name);
        std::fs::create_dir_all(&path).expect("the temporary folder is writable");
        path
    }
}

fn create(path: &Path) -> File {
    let mut options = OpenOptions::new();
    options.create(true).write(true).truncate(true).mode(0o600);
    options.open(path).expect("the temporary folder is writable")
}
