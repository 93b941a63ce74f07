//! Values of the keys that a reload cannot change.

/// The values of all keys that need a restart, in the order of the reference page.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RestartSettings(pub(crate) Vec<RestartSetting>);

/// A key that needs a restart, and its value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct RestartSetting {
    /// Its path, such as `process.user`.
    pub(crate) key: String,
    /// The value in a form that is equal for equal values; of a section that repeats, those that are written.
    pub(crate) values: Vec<String>,
}

impl RestartSettings {
    /// The paths of all these keys.
    pub fn keys(&self) -> impl Iterator<Item = &str> {
        self.0.iter().map(|setting| &*setting.key)
    }

    /// The keys whose values differ from those in `before`.
    pub fn changed_since(&self, before: &Self) -> Vec<String> {
        let changed = self.0.iter().zip(&before.0).filter(|(new, old)| new != old);
        changed.map(|(new, _)| new.key.clone()).collect()
    }
}
