//! Which keys the key process has read, and which of them it can drop.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use handfast_tls::apart::KeyId;

/// How long a key is kept that no new connection needs: handshakes that began before a reload may still need it.
const UNUSED_KEY_LIFETIME: Duration = Duration::from_secs(300);

#[derive(Debug, Default)]
pub(super) struct KeyIndex {
    by_file: BTreeMap<PathBuf, Vec<KeyId>>,
    /// Keys that the present configuration does not need, and since when.
    unneeded_since: HashMap<KeyId, Instant>,
}

impl KeyIndex {
    /// Records the keys of a file that was read. They count as needed until [`Self::set_needed`].
    pub(super) fn insert(&mut self, path: &Path, keys: &[KeyId]) {
        self.unneeded_since.retain(|key, _| !keys.contains(key));
        let before = self.by_file.insert(path.to_path_buf(), keys.to_vec());
        for key in before.into_iter().flatten().filter(|key| !keys.contains(key)) {
            self.unneeded_since.entry(key).or_insert_with(Instant::now);
        }
    }

    /// Records that these keys are needed and no others. Removes and returns the files without a needed key.
    pub(super) fn set_needed(&mut self, needed: &HashSet<KeyId>) -> Vec<PathBuf> {
        let Self { by_file, unneeded_since } = self;
        unneeded_since.retain(|key, _| !needed.contains(key));
        for key in by_file.values().flatten().filter(|key| !needed.contains(key)) {
            unneeded_since.entry(*key).or_insert_with(Instant::now);
        }
        let is_unneeded = |keys: &[KeyId]| !keys.iter().any(|key| needed.contains(key));
        by_file.extract_if(.., |_, keys| is_unneeded(keys)).map(|(path, _)| path).collect()
    }

    /// Removes and returns the keys that have been unneeded for [`UNUSED_KEY_LIFETIME`].
    pub(super) fn take_expired(&mut self) -> Vec<KeyId> {
        let is_expired = |since: &Instant| since.elapsed() >= UNUSED_KEY_LIFETIME;
        self.unneeded_since.extract_if(|_, since| is_expired(since)).map(|(key, _)| key).collect()
    }

    /// As if the keys that are not needed had not been needed for long.
    #[cfg(test)]
    pub(super) fn expire_unneeded(&mut self) {
        let long_ago = Instant::now().checked_sub(UNUSED_KEY_LIFETIME).expect("the machine runs for longer");
        self.unneeded_since.values_mut().for_each(|since| *since = long_ago);
    }
}
