//! Finds the modules of a crate that use an item of another one, as far as the text shows it.
//!
//! In: the files of one crate below its `src`. Out: [`Import`]s between modules.
//!
//! - A module is a file. An inline `mod` belongs to its file.
//! - `mod a;` declares and imports nothing: a parent that only lists its submodules does not depend on them.
//! - A `use` of an item is an import of the module that defines it: re-exports and the imports of a parent that a
//!   submodule reaches through `super` are followed, also through globs.
//! - A `use` of a module gives it a name; the imports are the paths that start with this name.
//! - `pub use` gives an item a second name. It is an import only where the same file uses the item otherwise.
//! - Methods and fields that are reached through values are not seen, nor paths inside of string literals.

use std::collections::{BTreeMap, BTreeSet};

use crate::tokens::{Token, group_len, is_name_start, product_tokens};

/// Path of a module below the root of its crate: `["weak", "list"]`.
pub(crate) type ModulePath = Vec<String>;

/// One module uses an item of another one.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Import {
    pub(crate) from: ModulePath,
    pub(crate) to: ModulePath,
    /// Its place in the file of `from`.
    pub(crate) line: usize,
    /// As it is written there, with groups resolved.
    pub(crate) path: String,
}

/// A name that a file gives to a path with `use`.
struct Name {
    /// `*` for a glob.
    name: String,
    path: Vec<String>,
    line: usize,
    is_public: bool,
}

#[derive(Default)]
struct Module {
    /// All but the `use` items; each with the number of inline modules around it.
    code: Vec<(Token, usize)>,
    names: Vec<Name>,
    /// Items that are defined at the top.
    items: BTreeSet<String>,
    /// Submodules in separate files.
    submodules: BTreeSet<String>,
}

/// The modules of one crate.
pub(crate) struct Crate(BTreeMap<ModulePath, Module>);

/// Words before the name of an item.
const DEFINITIONS: [&str; 10] =
    ["fn", "struct", "enum", "union", "trait", "type", "const", "static", "mod", "macro_rules"];

impl Crate {
    /// From paths below `src` and texts. Files of tests are left out.
    pub(crate) fn new<'a>(files: impl Iterator<Item = (&'a str, &'a str)>) -> Self {
        let read = |(path, text)| Some((module_path(path)?, product_tokens(text)));
        let read: BTreeMap<ModulePath, Vec<Token>> = files.filter_map(read).collect();
        let mut modules: BTreeMap<ModulePath, Module> =
            read.iter().map(|(path, tokens)| (path.clone(), Module::new(tokens))).collect();
        let is_reached = |path: &ModulePath, modules: &BTreeMap<ModulePath, Module>| {
            (1..=path.len()).all(|len| {
                let parent = modules.get(&path[..len - 1]);
                parent.is_none_or(|parent| parent.submodules.contains(&path[len - 1]))
            })
        };
        let tests: Vec<ModulePath> =
            modules.keys().filter(|path| !is_reached(path, &modules)).cloned().collect();
        for path in tests {
            modules.remove(&path);
        }
        Self(modules)
    }

    /// Every import, the first of each pair of modules.
    pub(crate) fn imports(&self) -> Vec<Import> {
        let mut found: BTreeMap<(ModulePath, ModulePath), Import> = BTreeMap::new();
        for (from, module) in &self.0 {
            let mut add = |to: ModulePath, line: usize, path: &[String]| {
                if to != *from {
                    let import = Import { from: from.clone(), to: to.clone(), line, path: path.join("::") };
                    found.entry((from.clone(), to)).or_insert(import);
                }
            };
            for name in &module.names {
                if name.is_public && !module.uses(&name.name) {
                    continue;
                }
                if let Some((to, Some(_))) = self.target(from, &name.path) {
                    add(to, name.line, &name.path);
                }
            }
            for (path, line) in module.paths() {
                if let Some((to, _)) = self.target(from, &path) {
                    add(to, line, &path);
                }
            }
        }
        found.into_values().collect()
    }

    /// The module that defines what a path in the module `from` leads to, and the item; `None`: of another crate.
    fn target(&self, from: &[String], path: &[String]) -> Option<(ModulePath, Option<String>)> {
        let mut seen = BTreeSet::new();
        self.follow(from, path, &mut seen)
    }

    fn follow(
        &self,
        from: &[String],
        path: &[String],
        seen: &mut BTreeSet<(ModulePath, String)>,
    ) -> Option<(ModulePath, Option<String>)> {
        let (first, mut rest) = path.split_first()?;
        let mut base = match first.as_str() {
            "crate" => Vec::new(),
            "self" => from.to_vec(),
            "super" => from[..from.len().checked_sub(1)?].to_vec(),
            first if self.contains(from, first) => return self.enter(from.to_vec(), path, seen),
            _ => return None,
        };
        while rest.first().is_some_and(|word| word == "super") {
            base.pop()?;
            rest = &rest[1..];
        }
        self.enter(base, rest, seen)
    }

    /// Returns true if a path in this module may start with this name: a submodule, or something imported.
    fn contains(&self, module: &[String], name: &str) -> bool {
        self.0.get(module).is_some_and(|module| {
            module.submodules.contains(name) || module.names.iter().any(|known| known.name == name)
        })
    }

    /// Walks down from a module by the rest of a path.
    fn enter(
        &self,
        mut module: ModulePath,
        rest: &[String],
        seen: &mut BTreeSet<(ModulePath, String)>,
    ) -> Option<(ModulePath, Option<String>)> {
        let mut rest = rest;
        while let Some((first, after)) = rest.split_first() {
            let below = [module.as_slice(), std::slice::from_ref(first)].concat();
            if !self.0.contains_key(&below) {
                break;
            }
            module = below;
            rest = after;
        }
        let Some((item, after)) = rest.split_first() else { return Some((module, None)) };
        let here = self.0.get(&module)?;
        if item == "*" || here.items.contains(item) || !seen.insert((module.clone(), item.clone())) {
            return Some((module, Some(item.clone())));
        }
        if let Some(name) = here.names.iter().find(|name| name.name == *item) {
            let path = [name.path.as_slice(), after].concat();
            return self.follow(&module, &path, seen);
        }
        for glob in here.names.iter().filter(|name| name.name == "*") {
            let path = [&glob.path[..glob.path.len() - 1], rest].concat();
            if let Some(found) = self.follow(&module, &path, seen)
                && self.0.get(&found.0).is_some_and(|module| module.items.contains(item))
            {
                return Some(found);
            }
        }
        Some((module, Some(item.clone())))
    }
}

impl Module {
    fn new(tokens: &[Token]) -> Self {
        let mut module = Self::default();
        let (mut at, mut depth) = (0, 0_usize);
        // Depths of braces at which inline modules opened.
        let mut inline = Vec::new();
        while at < tokens.len() {
            let word = tokens[at].text.as_str();
            let after = tokens.get(at + 1).map_or("", |token| token.text.as_str());
            match word {
                "use" if after.starts_with(is_name_start) || after == "{" => {
                    let is_public = at > 0 && matches!(tokens[at - 1].text.as_str(), "pub" | ")");
                    let len = tokens[at..].iter().take_while(|token| token.text != ";").count();
                    module.add_use(&tokens[at + 1..at + len], &[], is_public, inline.len());
                    at += len;
                    continue;
                }
                "mod" if tokens.get(at + 2).is_some_and(|token| token.text == ";") => {
                    module.submodules.insert(after.into());
                }
                "mod" if tokens.get(at + 2).is_some_and(|token| token.text == "{") => inline.push(depth),
                "{" => depth += 1,
                "}" => {
                    depth = depth.saturating_sub(1);
                    inline.pop_if(|opened| *opened == depth);
                }
                _ => {}
            }
            if depth == 0 && DEFINITIONS.contains(&word) {
                let name = if word == "macro_rules" { tokens.get(at + 2) } else { tokens.get(at + 1) };
                module.items.extend(name.map(|name| name.text.clone()));
            }
            module.code.push((tokens[at].clone(), inline.len()));
            at += 1;
        }
        module
    }

    /// Adds the names of a tree of `use`; the `super`s that only leave inline modules are taken off.
    fn add_use(&mut self, tree: &[Token], before: &[String], is_public: bool, inline: usize) {
        let mut path = before.to_vec();
        let mut at = 0;
        while let Some(token) = tree.get(at) {
            match token.text.as_str() {
                "::" => {}
                "{" => {
                    let inside = &tree[at + 1..at + group_len(&tree[at..]) - 1];
                    for branch in branches(inside) {
                        self.add_use(branch, &path, is_public, inline);
                    }
                    return;
                }
                "as" => break,
                word => path.push(word.into()),
            }
            at += 1;
        }
        if path.len() > 1 && path.last().is_some_and(|last| last == "self") {
            path.pop();
        }
        let (Some(last), Some(first)) = (path.last(), tree.first()) else { return };
        let name = tree.get(at + 1).map_or_else(|| last.clone(), |alias| alias.text.clone());
        let path = out_of_inline(path, inline);
        self.names.push(Name { name, path, line: first.line, is_public });
    }

    /// Returns true if the code names it, other than as a method, a field or the end of a path.
    fn uses(&self, name: &str) -> bool {
        self.code.iter().enumerate().any(|(at, (token, _))| {
            let before = at.checked_sub(1).map_or("", |before| self.code[before].0.text.as_str());
            token.text == name && !matches!(before, "." | "::" | "fn" | "mod")
        })
    }

    /// The paths in the code.
    fn paths(&self) -> Vec<(Vec<String>, usize)> {
        let mut found = Vec::new();
        let mut at = 0;
        while let Some((token, inline)) = self.code.get(at) {
            let before = at.checked_sub(1).map_or("", |before| self.code[before].0.text.as_str());
            let start = at;
            at += 1;
            if !token.is_name() {
                continue;
            }
            let mut path = vec![token.text.clone()];
            while let [(colons, _), (next, _), ..] = &self.code[at..]
                && colons.text == "::"
                && next.is_name()
            {
                path.push(next.text.clone());
                at += 2;
            }
            // `pub(in crate::a)` says who may see it, and uses nothing.
            let is_visibility = before == "in" && start > 1 && self.code[start - 2].0.text == "(";
            if path.len() > 1 && before != "::" && !is_visibility {
                found.push((out_of_inline(path, *inline), token.line));
            }
        }
        found
    }
}

/// The parts between the commas of a group.
fn branches(inside: &[Token]) -> Vec<&[Token]> {
    let mut depth = 0_usize;
    let parts = inside.split(|token| {
        match token.text.as_str() {
            "{" => depth += 1,
            "}" => depth -= 1,
            _ => {}
        }
        depth == 0 && token.text == ","
    });
    parts.filter(|part| !part.is_empty()).collect()
}

/// A path in an inline module as the file around it would write it.
fn out_of_inline(mut path: Vec<String>, inline: usize) -> Vec<String> {
    let leaves = path.iter().take_while(|word| *word == "super").count();
    path.drain(..leaves.min(inline));
    if leaves > 0 && leaves <= inline {
        path.insert(0, "self".into());
    }
    path
}

/// `weak/list.rs` is `["weak", "list"]`; `None` for tests and what is no Rust.
fn module_path(path: &str) -> Option<ModulePath> {
    let mut words: ModulePath = path.strip_suffix(".rs")?.split('/').map(String::from).collect();
    if words.iter().any(|word| word == "tests" || word.ends_with("_tests")) {
        return None;
    }
    let is_root = words.len() == 1 && matches!(words[0].as_str(), "lib" | "main");
    if is_root || words.last().is_some_and(|last| last == "mod") {
        words.pop();
    }
    Some(words)
}
