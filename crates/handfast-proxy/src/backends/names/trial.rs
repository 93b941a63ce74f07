//! Looking up every name of a configuration once, for `handfast check`.
//!
//! In: a configuration. Out: the names that have no address now, with the cause. A start serves without them, and keeps asking.

use std::time::Duration;

use hickory_resolver::TokioResolver;
use tokio::task::JoinSet;
use tokio::time::{Instant, timeout_at};

use super::{LookupSchedule, NameKey, Unresolved, ask, wanted};
use handfast_config::model::Config;

/// How long all questions together may take. A resolver that does not answer is asked twice within it.
const TRIAL: Duration = Duration::from_secs(5);
/// Names that are listed one by one.
const MOST_LISTED: usize = 20;

/// The names that cannot be resolved now, a line for each.
///
/// **Cost**: blocks until each name has an answer, at most [`TRIAL`]; all are asked for at the same time.
pub(crate) fn unresolvable(config: &Config) -> Vec<String> {
    let mut names: Vec<(NameKey, LookupSchedule)> = wanted(config).into_iter().collect();
    names.sort_unstable_by(|one, other| one.0.cmp(&other.0));
    if names.is_empty() {
        return Vec::new();
    }
    // A thread, since the caller may be in a runtime already.
    let thread = std::thread::Builder::new().name("names".to_owned());
    let asked = std::thread::scope(|scope| {
        let spawned = thread.spawn_scoped(scope, || ask_all(names.iter().map(|(name, _)| name.clone())));
        spawned.map(|asking| asking.join().unwrap_or_default())
    });
    let outcomes = match asked {
        Ok(outcomes) => outcomes,
        Err(error) => return vec![format!("resolve the names of backends: start a thread: {error}")],
    };
    let lines: Vec<String> = names
        .iter()
        .filter_map(|(name, LookupSchedule { services, .. })| {
            let (_, problem) = outcomes.iter().find(|(known, _)| known == name)?;
            Some(format!("resolve {} (service {}): {problem}", name.0, services.join(", ")))
        })
        .collect();
    let more = lines.len().saturating_sub(MOST_LISTED);
    let mut listed: Vec<String> = lines.into_iter().take(MOST_LISTED).collect();
    if more > 0 {
        listed.push(format!("{more} more names of backends cannot be resolved"));
    }
    if let Some(last) = listed.last_mut() {
        last.push_str("\n  hint: a start serves without them, and asks again until there is an answer");
    }
    listed
}

/// Asks for each name; those without an address, and why.
fn ask_all(names: impl Iterator<Item = NameKey>) -> Vec<(NameKey, Unresolved)> {
    let Ok(runtime) = tokio::runtime::Builder::new_current_thread().enable_all().build() else {
        return Vec::new();
    };
    let failed = runtime.block_on(async {
        let resolver = TokioResolver::builder_tokio().and_then(|builder| builder.build()).ok();
        let deadline = Instant::now() + TRIAL;
        let mut questions = JoinSet::new();
        for name in names {
            let resolver = resolver.clone();
            questions.spawn(async move {
                let answer = timeout_at(deadline, ask(resolver.as_ref(), &name)).await;
                (name, answer.unwrap_or(Err(Unresolved::Deadline(TRIAL))))
            });
        }
        let outcomes = questions.join_all().await.into_iter();
        outcomes.filter_map(|(name, outcome)| Some((name, outcome.err()?))).collect()
    });
    // A lookup by the C library cannot be cancelled.
    runtime.shutdown_background();
    failed
}

#[cfg(test)]
mod tests {
    use super::*;
    use handfast_config::parse;

    /// The name is reserved for having no address (RFC 6761 §6.4), whatever this machine resolves names with.
    #[test]
    fn a_name_without_an_address_is_named_with_its_service_and_the_cause() {
        let text = "[[service]]\nname = \"db\"\nlisten = \"127.0.0.1:1\"\nclient-tls = false\n\
                    backend = [\"no-such-name.invalid:80\", \"10.0.0.1:80\"]\n";
        let (config, _) = parse("handfast.toml", text, &|_| false).expect("a good configuration");
        let lines = unresolvable(&config);
        let [line] = &lines[..] else { panic!("{lines:?}") };
        assert!(line.starts_with("resolve no-such-name.invalid (service db): "), "{line}");
        assert!(
            line.ends_with("\n  hint: a start serves without them, and asks again until there is an answer"),
            "{line}"
        );
    }
}
