//! The users of a route: names and hashes of passwords, as `htpasswd -B` writes them.
//!
//! In: the text of a file. Out: whether a name has a password, which takes a tenth of a second and more, so it is asked on a thread of
//! its own (`verifier.rs`). Only hashes that cannot be guessed quickly are read: bcrypt and Argon2.

use std::collections::HashMap;
use std::path::Path;
use std::{fmt, fs, io};

use argon2::password_hash::PasswordVerifier as _;
use argon2::password_hash::phc::PasswordHash;
use argon2::{Argon2, Params};
use handfast_tls::keyed_hash::{Digest, HashKey};

/// Bytes of a file: 10,000 users.
pub(crate) const FILE_LIMIT: u64 = 1 << 20;
/// Problems of one file that are reported.
const MOST_PROBLEMS: usize = 20;
/// Of bcrypt: 2^15 rounds take two to three seconds.
const MOST_COST: u32 = 15;
/// Of Argon2, in KiB: each of two threads may need this memory at once.
const MOST_MEMORY: u32 = 256 * 1024;
/// Passes of Argon2 over its memory.
const MOST_PASSES: u32 = 16;

/// The users of one file, as they were when it was read.
pub(crate) struct Users {
    hashes: HashMap<Box<str>, Box<str>>,
    /// For names that are not there: an answer takes as long for them.
    substitute: Box<str>,
    /// For what is remembered of passwords. It is made with the users, so nothing is remembered when the file has changed.
    key: HashKey,
}

impl fmt::Debug for Users {
    /// Without the hashes.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Users").field("count", &self.hashes.len()).finish_non_exhaustive()
    }
}

/// What is wrong with a line.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Problem {
    pub(crate) line: usize,
    pub(crate) what: &'static str,
    pub(crate) hint: &'static str,
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {}: {}\n  hint: {}", self.line, self.what, self.hint)
    }
}

/// How to make a line that is read.
const HINT: &str = "make the line by `htpasswd -B`, which asks for the password";

impl Users {
    /// Reads the lines `name:hash`; empty ones, and those that begin with `#`, are skipped.
    ///
    /// **Errors**: all lines that are wrong, up to a bound.
    pub(crate) fn parse(text: &str, key: HashKey) -> Result<Self, Vec<Problem>> {
        let (mut hashes, mut problems) = (HashMap::new(), Vec::new());
        for (index, line) in text.lines().enumerate() {
            let line = line.trim_end();
            if line.is_empty() || line.starts_with('#') {
                continue;
            }
            let outcome = match line.split_once(':') {
                None | Some(("", _)) => Err(("it is not `name:hash`", HINT)),
                Some((name, _)) if hashes.contains_key(name) => {
                    Err(("the name is in the file twice", "remove one of the two lines"))
                }
                Some((name, rest)) => {
                    // What follows a second colon is a comment of htpasswd.
                    let hash = rest.split(':').next().unwrap_or_default();
                    check(hash).map(|()| (name, hash))
                }
            };
            match outcome {
                Ok((name, hash)) => {
                    hashes.insert(name.into(), hash.into());
                }
                Err((what, hint)) => problems.push(Problem { line: index + 1, what, hint }),
            }
            if problems.len() == MOST_PROBLEMS {
                break;
            }
        }
        let substitute: Option<&Box<str>> = hashes.values().next();
        match (problems.is_empty(), substitute.cloned()) {
            (true, Some(substitute)) => Ok(Self { hashes, substitute, key }),
            (true, None) => Err(vec![Problem { line: 1, what: "there is no user", hint: HINT }]),
            (false, _) => Err(problems),
        }
    }

    /// Whether it has the same users with the same passwords.
    pub(crate) fn is_same(&self, other: &Self) -> bool {
        self.hashes == other.hashes
    }

    /// What is remembered of a name and a password: neither can be found from it.
    pub(crate) fn digest(&self, name: &str, password: &[u8]) -> Digest {
        self.key.hash(&[name.as_bytes(), password])
    }

    /// Whether the user has this password.
    ///
    /// **Cost**: what the hash asks for, up to seconds; as much for a name that is not there.
    pub(crate) fn verify(&self, name: &str, password: &[u8]) -> bool {
        let hash = self.hashes.get(name);
        let is_right = is_password_of(hash.unwrap_or(&self.substitute), password);
        is_right && hash.is_some()
    }
}

fn is_password_of(hash: &str, password: &[u8]) -> bool {
    if hash.starts_with("$argon2") {
        let Ok(hash) = PasswordHash::new(hash) else { return false };
        return Argon2::default().verify_password(password, &hash).is_ok();
    }
    bcrypt::verify(password, hash).unwrap_or(false)
}

/// Reads a file of users.
///
/// **Errors**: what is wrong with it, with the first cure behind `hint:`.
pub(crate) fn read(file: &Path) -> Result<Users, String> {
    let unreadable = |error: io::Error| format!("cannot be read: {error}");
    let length = fs::metadata(file).map_err(unreadable)?.len();
    if length > FILE_LIMIT {
        return Err(format!("holds {length} bytes, expected at most {FILE_LIMIT}"));
    }
    let text = fs::read_to_string(file).map_err(unreadable)?;
    let key = HashKey::random().map_err(|error| error.to_string())?;
    Users::parse(&text, key).map_err(|problems| {
        let lines: Vec<String> =
            problems.iter().map(|problem| format!("line {}: {}", problem.line, problem.what)).collect();
        let hint = problems.first().map_or("", |problem| problem.hint);
        format!("{}\n  hint: {hint}", lines.join("\n  "))
    })
}

/// Whether a hash is one that is verified; if not, why, and what helps.
fn check(hash: &str) -> Result<(), (&'static str, &'static str)> {
    let begins = |beginning: &str| hash.starts_with(beginning);
    if begins("$argon2") {
        return check_argon2(hash);
    }
    if begins("$2a$") || begins("$2b$") || begins("$2y$") {
        return check_bcrypt(hash);
    }
    let what = if begins("$2x$") {
        "this form of bcrypt ($2x$) comes from a program with a fault, and different passwords fit it"
    } else if begins("$apr1$") {
        "apr1 is MD5: a graphics card tries millions of passwords a second"
    } else if begins("{SHA}") || begins("{SSHA}") {
        "SHA-1 without rounds: a graphics card tries thousands of millions of passwords a second"
    } else if begins("$1$") || begins("$5$") || begins("$6$") || begins("$y$") || begins("_") || is_des(hash)
    {
        "hashes of crypt(3) are not read; most of its forms can be guessed quickly"
    } else {
        "this is no hash; a password in plain text is known to everyone who can read the file"
    };
    Err((what, HINT))
}

/// The oldest form of crypt(3), which ends after eight characters of the password.
fn is_des(hash: &str) -> bool {
    hash.len() == 13 && hash.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'/'))
}

fn check_bcrypt(hash: &str) -> Result<(), (&'static str, &'static str)> {
    let is_whole = hash.len() == 60 && hash.as_bytes()[6] == b'$';
    let cost = hash.get(4..6).and_then(|cost| cost.parse::<u32>().ok());
    match cost.filter(|_| is_whole) {
        Some(4..=MOST_COST) if hash.parse::<bcrypt::HashParts>().is_ok() => Ok(()),
        Some(16..) => {
            Err(("a check by this cost of bcrypt takes seconds; the most is 15", "use `htpasswd -B -C 12`"))
        }
        _ => Err(("this hash of bcrypt is broken", HINT)),
    }
}

fn check_argon2(hash: &str) -> Result<(), (&'static str, &'static str)> {
    let broken = ("this hash of Argon2 is broken", "make it again");
    let parsed = PasswordHash::new(hash).map_err(|_| broken)?;
    let params = Params::try_from(&parsed).map_err(|_| broken)?;
    if parsed.hash.is_none() || parsed.salt.is_none() {
        return Err(broken);
    }
    if params.m_cost() > MOST_MEMORY || params.t_cost() > MOST_PASSES {
        let hint = "make it again with m=65536, t=3";
        return Err(("a check by these parameters of Argon2 needs more than 256 MiB, or 16 passes", hint));
    }
    Ok(())
}

#[cfg(test)]
mod tests;
