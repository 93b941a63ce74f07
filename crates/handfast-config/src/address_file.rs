//! Files of addresses (`file:addresses.txt` in a list of addresses): one address or network a line.
//!
//! In: a text. Out: prefixes, or every line that is none, up to a bound. Files are read when the state is made, so that a change of
//! one takes effect like that of a certificate.

use std::fmt;

use handfast_net::prefix::Prefix;

use super::problem::shortened;

/// Most bytes of a file.
pub const MAX_ADDRESS_FILE_BYTES: u64 = 8 << 20;
/// Most addresses and networks of a file.
const MAX_ADDRESSES: usize = 100_000;
/// Problems of one file that are reported.
const MAX_PROBLEMS: usize = 20;

/// A line that is no address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AddressLineProblem {
    /// The line, from 1.
    pub line: usize,
    /// Description of the problem, in one clause, with a hint.
    pub what: String,
}

impl fmt::Display for AddressLineProblem {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(to, "{}: {}", self.line, self.what)
    }
}

/// Reads a file's text. Empty lines, and what follows `#` in a line, are skipped.
///
/// **Errors**: each line that is no address or network, up to a bound; too many of them.
pub fn addresses(text: &str) -> Result<Vec<Prefix>, Vec<AddressLineProblem>> {
    let (mut prefixes, mut problems) = (Vec::new(), Vec::new());
    for (index, line) in text.lines().enumerate() {
        let written = line.split('#').next().unwrap_or_default().trim();
        if written.is_empty() {
            continue;
        }
        let line = index + 1;
        if prefixes.len() == MAX_ADDRESSES {
            let what = format!("the file has more than {MAX_ADDRESSES} addresses and networks");
            problems.push(AddressLineProblem { line, what });
            break;
        }
        match written.parse::<Prefix>() {
            Ok(prefix) => prefixes.push(prefix),
            Err(error) => {
                let hint = error.hint().map(|hint| format!("; hint: {hint}")).unwrap_or_default();
                let what = format!("{}; allowed: {}{hint}", shortened(&error.what()), error.expected());
                problems.push(AddressLineProblem { line, what });
            }
        }
        if problems.len() == MAX_PROBLEMS {
            break;
        }
    }
    if problems.is_empty() { Ok(prefixes) } else { Err(problems) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_line_has_an_address_or_a_network() {
        let text = "# offices\n10.0.0.0/8\n\n  192.0.2.7   # a gateway\r\n2001:db8::/32\n";
        let prefixes: Vec<String> =
            addresses(text).expect("it is right").iter().map(ToString::to_string).collect();
        assert_eq!(prefixes, ["10.0.0.0/8", "192.0.2.7", "2001:db8::/32"]);
        assert_eq!(addresses("# none\n"), Ok(Vec::new()));
    }

    #[test]
    fn every_line_that_is_wrong_is_named_up_to_a_bound() {
        let problems = addresses("10.0.0.1\nexample.org\n10.0.0.0/33\n").expect_err("two lines are wrong");
        let lines: Vec<_> = problems.iter().map(|problem| problem.line).collect();
        assert_eq!(lines, [2, 3]);
        assert!(problems[0].to_string().starts_with("2: `example.org` "), "{problems:?}");
        assert_eq!(addresses(&"x\n".repeat(100)).expect_err("all are wrong").len(), MAX_PROBLEMS);
        let many = "10.0.0.1\n".repeat(MAX_ADDRESSES + 1);
        let problems = addresses(&many).expect_err("there are too many");
        assert_eq!(problems[0].to_string(), "100001: the file has more than 100000 addresses and networks");
        assert!(addresses(&many[9..]).is_ok());
    }
}
