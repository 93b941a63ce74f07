//! Looks up a directive of nginx: in a block, then in those around it.

use super::grammar::Directive;

/// A block and those around it, the outermost first.
#[derive(Clone, Debug, Default)]
pub(super) struct Scope<'d>(Vec<&'d [Directive]>);

impl<'d> Scope<'d> {
    pub(super) fn new(block: &'d [Directive]) -> Self {
        Self(vec![block])
    }

    /// A block in this one.
    pub(super) fn within(&self, block: &'d [Directive]) -> Self {
        let mut levels = self.0.clone();
        levels.push(block);
        Self(levels)
    }

    /// All with this name of the innermost block that has one: the others are not inherited then.
    pub(super) fn all(&self, name: &str) -> Vec<&'d Directive> {
        self.all_of(&[name])
    }

    /// The same for directives that are one list.
    pub(super) fn all_of(&self, names: &[&str]) -> Vec<&'d Directive> {
        let named = |level: &&'d [Directive]| {
            level.iter().filter(|directive| names.contains(&directive.name.as_str())).collect::<Vec<_>>()
        };
        self.0.iter().rev().map(named).find(|found| !found.is_empty()).unwrap_or_default()
    }

    /// Each with this name, in all blocks.
    pub(super) fn every(&self, name: &'d str) -> impl Iterator<Item = &'d Directive> {
        self.0.iter().flat_map(|level| level.iter()).filter(move |directive| directive.name == name)
    }

    /// The blocks around it, of the server and outside, with another block of the server in the place of the inner ones.
    pub(super) fn of_location(&self, location: &'d Directive) -> Self {
        let mut levels: Vec<_> = self.0.iter().take(2).copied().collect();
        levels.push(location.inner());
        Self(levels)
    }

    /// The block of the server.
    pub(super) fn server(&self) -> &'d [Directive] {
        self.0.get(1).copied().unwrap_or_default()
    }

    pub(super) fn last(&self, name: &str) -> Option<&'d Directive> {
        self.all(name).pop()
    }

    /// Its first argument.
    pub(super) fn text(&self, name: &str) -> Option<&'d str> {
        self.last(name).map(|directive| directive.argument(0))
    }

    pub(super) fn is_on(&self, name: &str) -> bool {
        self.last(name).is_some_and(Directive::is_on)
    }
}

/// One with this name in the block itself.
pub(super) fn own<'d>(block: &'d [Directive], name: &str) -> Option<&'d Directive> {
    block.iter().rev().find(|directive| directive.name == name)
}
