//! Circles of modules. In: the sources of each crate. Out: complaints about modules that all use each other.
//!
//! A reader of one file in a circle of twenty has to know all twenty. So a circle has [`MAX_MODULES`] modules at most: a module and
//! its submodules may know each other. What counts as a use of another module: `cycles/imports.rs`.

mod imports;

use std::collections::{BTreeMap, BTreeSet};

use self::imports::{Crate, Import, ModulePath};
use super::{Complaint, SourceFile, assert_none, tracked_files};

/// Modules that a circle may have.
const MAX_MODULES: usize = 2;

/// Crates whose largest circle is larger, and its number of modules. A line is lowered or removed, never raised or added.
const EXCEPTIONS: [(&str, usize); 2] = [("handfast-net", 4), ("handfast-wire", 3)];

/// Modules of which each one uses each other one, directly or through others.
type Circle = BTreeSet<ModulePath>;

/// The circles of at least two modules, the largest first.
fn circles(imports: &[Import]) -> Vec<Circle> {
    let mut uses: BTreeMap<&ModulePath, Vec<&ModulePath>> = BTreeMap::new();
    for import in imports {
        uses.entry(&import.from).or_default().push(&import.to);
    }
    let reached: BTreeMap<&ModulePath, BTreeSet<&ModulePath>> = uses
        .keys()
        .map(|from| {
            let mut reached = BTreeSet::new();
            let mut next = uses[from].clone();
            while let Some(module) = next.pop() {
                if reached.insert(module) {
                    next.extend(uses.get(module).into_iter().flatten());
                }
            }
            (*from, reached)
        })
        .collect();
    let reaches = |from: &ModulePath, to: &ModulePath| reached.get(from).is_some_and(|all| all.contains(to));
    let circle = |(from, all): (&&ModulePath, &BTreeSet<&ModulePath>)| -> Circle {
        all.iter().filter(|to| reaches(to, from)).map(|module| (*module).clone()).collect()
    };
    let found: BTreeSet<Circle> = reached.iter().map(circle).filter(|circle| circle.len() > 1).collect();
    let mut found: Vec<Circle> = found.into_iter().collect();
    found.sort_by_key(|circle| std::cmp::Reverse(circle.len()));
    found
}

/// `weak/list`; the root of the crate is `lib`.
fn name(module: &ModulePath) -> String {
    if module.is_empty() { "lib".into() } else { module.join("/") }
}

fn describe(circle: &Circle, imports: &[Import]) -> String {
    let modules: Vec<String> = circle.iter().map(name).collect();
    let edge = |import: &Import| {
        let is_inside = circle.contains(&import.from) && circle.contains(&import.to);
        is_inside.then(|| {
            let (from, to) = (name(&import.from), name(&import.to));
            format!("    {from}:{} uses {to}: {}", import.line, import.path)
        })
    };
    let edges: Vec<String> = imports.iter().filter_map(edge).collect();
    format!("{} modules use each other: {}\n{}", circle.len(), modules.join(", "), edges.join("\n"))
}

/// Complaints about the circles of a crate whose line in the table says `excepted`.
fn complaints(crate_name: &str, imports: &[Import], excepted: Option<usize>) -> Vec<Complaint> {
    let circles = circles(imports);
    let largest = circles.first().map_or(0, Circle::len);
    let path = format!("crates/{crate_name}/src");
    let limit = excepted.unwrap_or(MAX_MODULES);
    if excepted.is_some() && largest < limit {
        let cure = if largest > MAX_MODULES {
            format!("lower its line to {largest}")
        } else {
            "remove its line".into()
        };
        let what =
            format!("the largest circle has {largest} modules, not {limit}; hint: {cure} in EXCEPTIONS");
        return vec![Complaint::new(&path, 0, what)];
    }
    let too_large = circles.iter().filter(|circle| circle.len() > limit);
    let complain = |circle| {
        let what = format!(
            "{}\n    limit {limit}; hint: move the item that both sides need into a module below both",
            describe(circle, imports)
        );
        Complaint::new(&path, 0, what)
    };
    too_large.map(complain).collect()
}

/// The imports between the modules of one crate.
pub(super) fn imports_of(crate_name: &str, files: &[SourceFile]) -> Vec<Import> {
    let source = format!("crates/{crate_name}/src/");
    let inside = files.iter().filter_map(|file| Some((file.path.strip_prefix(&source)?, file.text.as_str())));
    Crate::new(inside).imports()
}

#[test]
fn modules_do_not_run_in_circles() {
    let files = tracked_files();
    let crates: BTreeSet<&str> = files.iter().filter_map(SourceFile::crate_name).collect();
    let excepted = |name: &str| EXCEPTIONS.iter().find(|line| line.0 == name).map(|line| line.1);
    let mut found: Vec<Complaint> = Vec::new();
    for name in &crates {
        let imports = imports_of(name, &files);
        assert!(!imports.is_empty(), "no import was found in {name}");
        found.extend(complaints(name, &imports, excepted(name)));
    }
    for (name, _) in EXCEPTIONS.iter().filter(|line| !crates.contains(line.0)) {
        found.push(Complaint::new(name, 0, "is no crate; hint: remove its line in EXCEPTIONS"));
    }
    assert_none(&found);
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `a -> b` for each import of the made-up crate.
    fn edges(files: &[(&str, &str)]) -> Vec<String> {
        let imports = Crate::new(files.iter().copied()).imports();
        imports.iter().map(|import| format!("{} -> {}", name(&import.from), name(&import.to))).collect()
    }

    /// Modules in a ring, each of which uses the next one.
    fn ring(len: usize) -> Vec<Import> {
        let texts: Vec<(String, String)> = (0..len)
            .map(|at| (format!("m{at}.rs"), format!("use crate::m{}::A;\npub struct A;", (at + 1) % len)))
            .collect();
        let root: String = (0..len).map(|at| format!("mod m{at};\n")).collect();
        let files = texts.iter().map(|(path, text)| (path.as_str(), text.as_str()));
        Crate::new(files.chain([("lib.rs", root.as_str())])).imports()
    }

    #[test]
    fn a_circle_of_three_is_seen() {
        assert_eq!(complaints("x", &ring(2), None), []);
        let found = complaints("x", &ring(3), None);
        assert_eq!(found.len(), 1);
        for words in ["m0, m1, m2", "m2:1 uses m0: crate::m0::A"] {
            assert!(found[0].what.contains(words), "{}", found[0].what);
        }
    }

    #[test]
    fn an_exception_holds_and_only_shrinks() {
        assert_eq!(complaints("x", &ring(6), Some(6)), []);
        assert_eq!(complaints("x", &ring(7), Some(6)).len(), 1);
        assert!(complaints("x", &ring(5), Some(6))[0].what.contains("lower its line to 5"));
        assert!(complaints("x", &ring(2), Some(6))[0].what.contains("remove its line"));
    }

    #[test]
    fn groups_and_paths_in_expressions_are_imports() {
        let root = ("lib.rs", "mod a;\nmod b;\nmod c;\nmod d;\nmod e;");
        let user = "use crate::{b::{self, B}, c::C as D};\nfn f() { b::g(); crate::d::h(); e(super::e::E) }";
        assert_eq!(
            edges(&[root, ("a.rs", user), ("b.rs", ""), ("c.rs", ""), ("d.rs", ""), ("e.rs", "")]),
            ["a -> b", "a -> c", "a -> d", "a -> e"]
        );
        assert_eq!(
            edges(&[root, ("a.rs", "use crate::b;\npub(in crate::c) struct A;"), ("b.rs", "")]),
            [""; 0]
        );
    }

    #[test]
    fn paths_through_super_and_self_are_resolved() {
        let files = [
            ("lib.rs", "mod a;\nmod b;"),
            ("a.rs", "mod c;\nmod d;\nmod inside { use super::super::b::B; use super::c::C; }"),
            ("a/c.rs", "use super::d::D;\nuse super::super::b::B;"),
            ("a/d.rs", "use super::A;"),
            ("b.rs", "fn f() { self::g() }"),
        ];
        assert_eq!(edges(&files), ["a -> a/c", "a -> b", "a/c -> a/d", "a/c -> b", "a/d -> a"]);
    }

    #[test]
    fn reexports_lead_to_the_module_that_defines_the_item() {
        let files = [
            ("lib.rs", "mod a;\nmod b;"),
            ("a.rs", "mod c;\nmod d;\nmod e;\npub use c::{C, c};\nuse e::E;\npub use d::*;\nfn f(_: C) {}"),
            ("a/c.rs", "use super::E;\npub struct C;\npub fn c() {}"),
            ("a/d.rs", "pub struct D;"),
            ("a/e.rs", "pub struct E;"),
            ("b.rs", "use crate::a::{C, D};\nuse crate::a;\nfn f() { a::c() }"),
        ];
        assert_eq!(edges(&files), ["a -> a/c", "a -> a/e", "a/c -> a/e", "b -> a/c", "b -> a/d"]);
    }

    #[test]
    fn comments_strings_and_tests_are_not_counted() {
        let text = "//! [`crate::b::B`]\n// crate::b::B\n/* crate::b::B */\nfn f() { \"crate::b::B\"; }\n\
            #[cfg(test)]\nuse crate::b::B;\n#[cfg(test)]\nmod tests { use crate::b::B; }";
        let used = "use crate::b::B;";
        let files = [
            ("lib.rs", "mod a;\nmod b;\n#[cfg(test)]\nmod testing;\n#[cfg(test)]\nmod a_tests;"),
            ("a.rs", text),
            ("a/tests.rs", used),
            ("a/tests/more.rs", used),
            ("a_tests.rs", used),
            ("testing.rs", used),
            ("b.rs", ""),
        ];
        assert_eq!(edges(&files), [""; 0]);
    }
}
