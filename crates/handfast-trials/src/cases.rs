//! The table: every case, in the order of the path, then of the machine and of the proxy's own life.
//!
//! In: a scene. Out: the fault, proof that it happened, and the expected log records.

mod connect;
mod floods;
mod hello;
mod life;
mod machine;
mod names;
mod path;
mod relay;
mod requests;
mod responses;
mod shortage;

use crate::case::Case;

/// All of them.
pub(crate) fn all() -> impl Iterator<Item = &'static Case> {
    let tables: [&'static [Case]; 11] = [
        hello::CASES,
        connect::CASES,
        names::CASES,
        relay::CASES,
        floods::CASES,
        requests::CASES,
        responses::CASES,
        path::CASES,
        machine::CASES,
        shortage::CASES,
        life::CASES,
    ];
    tables.into_iter().flatten()
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;
    use crate::mode::Mode;

    #[test]
    fn names_differ_and_every_case_has_a_mode() {
        let names: HashSet<_> = all().map(|case| case.name).collect();
        assert_eq!(names.len(), all().count());
        for case in all() {
            assert!(Mode::ALL.iter().any(|mode| case.does_not_apply(*mode).is_none()), "{}", case.name);
        }
    }

    #[test]
    fn what_is_done_and_what_has_to_hold_are_sentences() {
        for case in all() {
            for text in [case.fault, case.must] {
                assert!(text.contains(' ') && !text.ends_with('.'), "{}: {text}", case.name);
            }
        }
    }
}
