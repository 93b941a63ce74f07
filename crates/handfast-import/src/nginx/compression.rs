//! `gzip`, and the modules `brotli` and `zstd`: compression of a location.

use super::scope::Scope;
use super::state::Import;
use super::value::{size, written_size};
use crate::draft::Draft;
use crate::note::Fate;
use crate::toml::{Value, list, table};

/// The name of the module, the algorithm, its level by default, and the highest one of Handfast.
const MODULES: [(&str, &str, i64, i64); 3] =
    [("zstd", "zstd", 1, 6), ("brotli", "br", 6, 4), ("gzip", "gzip", 1, 9)];
/// Bytes from which all modules compress by default.
const MIN_LENGTH: u64 = 20;

impl<'d> Import<'d> {
    /// Writes the compression of a location that is passed to a backend, after what restricts access to it.
    pub(super) fn compression(&mut self, scope: &Scope<'d>, route: &mut Draft) {
        let on: Vec<_> = MODULES.into_iter().filter(|(module, ..)| scope.is_on(module)).collect();
        let Some((first, ..)) = on.first() else { return };
        if ["basic-auth", "forward-auth", "allow-certificates"].iter().any(|key| route.of("").has(key)) {
            if let Some(directive) = scope.last(first) {
                let effect = "responses behind a password are not compressed: `with-secrets` explains why";
                self.note(directive, Fate::Approximated, effect);
            }
            return;
        }
        // Each module has this type by default.
        let mut types = vec!["text/html".to_owned()];
        let mut least: Option<u64> = None;
        let mut levels: Vec<(String, Value)> = Vec::new();
        for (module, algorithm, default, highest) in &on {
            let of = |option: &str| scope.last(&format!("{module}_{option}"));
            let written = of("types").into_iter().flat_map(|types| &types.arguments);
            types.extend(
                written.map(|kind| if kind == "*" { "*/*".to_owned() } else { kind.to_ascii_lowercase() }),
            );
            let length = of("min_length").and_then(|length| size(length.argument(0))).unwrap_or(MIN_LENGTH);
            least = Some(least.map_or(length, |least| least.min(length)));
            let level = of("comp_level").and_then(|level| level.argument(0).parse().ok()).unwrap_or(*default);
            levels.push((format!("{algorithm}-level"), level.clamp(1, *highest).into()));
        }
        types.retain(|kind| kind.contains('/'));
        let algorithms = on.iter().map(|(_, algorithm, ..)| *algorithm);
        let mut keys: Vec<(&str, Value)> = vec![
            ("algorithms", list(algorithms)),
            ("types", list(types)),
            ("min-size", written_size(least.unwrap_or(MIN_LENGTH).max(1)).into()),
        ];
        keys.extend(levels.iter().map(|(key, level)| (key.as_str(), level.clone())));
        route.put("", "compression", table(keys));
    }
}
