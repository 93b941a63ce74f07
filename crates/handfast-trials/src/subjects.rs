//! The programs under test, each with its adapter.

mod ghostunnel;
mod handfast;
mod haproxy;
mod hitch;
mod nginx;
mod stunnel;

use crate::subject::Subject;

/// All that are known.
pub const SUBJECTS: [&Subject; 6] = [
    &handfast::HANDFAST,
    &haproxy::HAPROXY,
    &nginx::NGINX,
    &stunnel::STUNNEL,
    &hitch::HITCH,
    &ghostunnel::GHOSTUNNEL,
];

/// Handfast itself.
pub const HANDFAST: &Subject = SUBJECTS[0];

/// The subject of this name.
pub fn named(name: &str) -> Option<&'static Subject> {
    SUBJECTS.into_iter().find(|subject| subject.name == name)
}

#[cfg(test)]
mod tests;
