//! Regular expressions of locations that are nothing but beginnings of paths: `^(/a|/b\.c)`.

/// Maximum number of beginnings of an expression.
const MAX_BEGINNINGS: usize = 64;

/// Returns the beginnings of the paths that an expression matches. `None`: it depends on more than the beginning.
pub(super) fn beginnings(expression: &str) -> Option<Vec<String>> {
    let rest = expression.strip_prefix('^')?;
    let ends = ["(.*)$", ".*$", "(.*)", ".*"];
    let mut rest = ends.iter().find_map(|end| rest.strip_suffix(end)).unwrap_or(rest);
    let mut found = vec![String::new()];
    while !rest.is_empty() {
        let (choices, after): (Vec<String>, &str) = match rest.strip_prefix('(') {
            Some(group) => {
                let (inner, after) = group.split_once(')')?;
                let inner = inner.strip_prefix("?:").unwrap_or(inner);
                (inner.split('|').map(literal).collect::<Option<_>>()?, after)
            }
            None => {
                let (text, after) = rest.split_at(rest.find('(').unwrap_or(rest.len()));
                (vec![literal(text)?], after)
            }
        };
        if found.len() * choices.len() > MAX_BEGINNINGS || after.starts_with(['?', '*', '+', '{']) {
            return None;
        }
        let with =
            |start: &String| choices.iter().map(move |end| format!("{start}{end}")).collect::<Vec<_>>();
        found = found.iter().flat_map(with).collect();
        rest = after;
    }
    found.iter().all(|path| path.starts_with('/')).then_some(found)
}

/// Returns the text of an expression without special signs.
fn literal(text: &str) -> Option<String> {
    let mut plain = String::new();
    let mut signs = text.chars();
    while let Some(sign) = signs.next() {
        match sign {
            '\\' => plain.push(signs.next().filter(|sign| "./-_~".contains(*sign))?),
            _ if sign.is_ascii_alphanumeric() || "/-_~".contains(sign) => plain.push(sign),
            _ => return None,
        }
    }
    Some(plain)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_beginnings_are_taken() {
        for (expression, expected) in [
            ("^/api/", Some(vec!["/api/"])),
            ("^(/_matrix|/_synapse/client)", Some(vec!["/_matrix", "/_synapse/client"])),
            ("^/(a|b)/(?:c|d\\.e)", Some(vec!["/a/c", "/a/d.e", "/b/c", "/b/d.e"])),
            ("^\\/a\\-b/.*$", Some(vec!["/a-b/"])),
            ("^/a/(.*)", Some(vec!["/a/"])),
            ("/api/", None),
            ("^/a.b", None),
            ("^/a$", None),
            ("^/(a|b)?/c", None),
            ("^/a+", None),
            ("^/a|/b", None),
            ("^/([^/]+)/", None),
            ("^a", None),
            ("^/(a(b|c))", None),
            ("^/\\d", None),
        ] {
            let found = beginnings(expression);
            assert_eq!(
                found,
                expected.map(|all| all.into_iter().map(str::to_owned).collect()),
                "{expression}"
            );
        }
    }
}
