//! The users of a route: names and hashes of passwords, as `htpasswd -B` writes them.
//!
//! In: the text of a file. Out: whether a name has a password, which takes a tenth of a second and more, so it is asked on a thread of
//! its own (`verifier.rs`). Only hashes that cannot be guessed quickly are read: bcrypt and Argon2.

use std::collections::HashMap;
use std::fmt;
use std::io;
use std::path::Path;

use argon2::password_hash::phc::PasswordHash;
use argon2::password_hash::{PasswordHasher as _, PasswordVerifier as _};
use argon2::{Argon2, Params};
use handfast_pki::files::read_text;
use handfast_tls::keyed_hash::{Digest, HashKey};

/// Bytes of a file: 10,000 users.
pub(crate) const FILE_LIMIT: u64 = 1 << 20;
/// Problems of one file that are reported.
const MAX_PROBLEMS: usize = 20;
/// Of bcrypt: 2^15 rounds take two to three seconds.
const MAX_BCRYPT_COST: u32 = 15;
/// Of Argon2, in KiB: each of two threads may need this memory at once.
const MAX_ARGON2_KIB: u32 = 256 * 1024;
/// Passes of Argon2 over its memory.
const MAX_ARGON2_PASSES: u32 = 16;

/// Different costs in one file: a wrong password is verified once by each of them.
const MAX_COSTS: usize = 16;

/// The users of one file, as they were when it was read.
pub(crate) struct Users {
    hashes: HashMap<Box<str>, Box<str>>,
    /// A hash of each cost in the file. A wrong password costs all of them, so that the time of the answer does not reveal which names
    /// exist.
    costs: Box<[Box<str>]>,
    /// For what is remembered of passwords. It is made with the users, so nothing is remembered when the file has changed.
    key: HashKey,
}

impl fmt::Debug for Users {
    /// Without the hashes.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Users").field("count", &self.hashes.len()).finish_non_exhaustive()
    }
}

/// Problem with a line of the file.
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

/// Hint for a line that cannot be used: the command that writes a valid one.
const HINT: &str = "make the line by `handfast hash-password NAME`, which asks for the password";

impl Users {
    /// Reads the lines `name:hash`; empty ones, and those that begin with `#`, are skipped.
    ///
    /// **Errors**: all lines that are wrong, up to a bound.
    pub(crate) fn parse(text: &str, key: HashKey) -> Result<Self, Vec<Problem>> {
        let (mut hashes, mut problems) = (HashMap::new(), Vec::new());
        let mut costs: Vec<Box<str>> = Vec::new();
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
                    // The text after a second colon is a comment of htpasswd.
                    let hash = rest.split(':').next().unwrap_or_default();
                    check(hash).and_then(|()| add_cost(&mut costs, hash)).map(|()| (name, hash))
                }
            };
            match outcome {
                Ok((name, hash)) => {
                    hashes.insert(name.into(), hash.into());
                }
                Err((what, hint)) => problems.push(Problem { line: index + 1, what, hint }),
            }
            if problems.len() == MAX_PROBLEMS {
                break;
            }
        }
        match (problems.is_empty(), hashes.is_empty()) {
            (true, false) => Ok(Self { hashes, costs: costs.into(), key }),
            (true, true) => Err(vec![Problem { line: 1, what: "there is no user", hint: HINT }]),
            (false, _) => Err(problems),
        }
    }

    /// Returns true if it has the same users with the same password hashes.
    pub(crate) fn is_same(&self, other: &Self) -> bool {
        self.hashes == other.hashes
    }

    /// Returns the digest by which a name and a password are remembered. Neither can be recovered from it.
    pub(crate) fn digest(&self, name: &str, password: &[u8]) -> Digest {
        self.key.hash(&[name.as_bytes(), password])
    }

    /// Returns true if the user has this password.
    ///
    /// **Cost**: that of the user's hash for a right password; for a wrong one that of each cost in the file, for any name. Up to
    /// seconds.
    pub(crate) fn verify(&self, name: &str, password: &[u8]) -> bool {
        self.verify_by(name, password, &mut is_password_of)
    }

    fn verify_by(
        &self,
        name: &str,
        password: &[u8],
        is_password_of: &mut dyn FnMut(&str, &[u8]) -> bool,
    ) -> bool {
        let hash = self.hashes.get(name);
        if hash.is_some_and(|hash| is_password_of(hash, password)) {
            return true;
        }
        let own = hash.map(|hash| cost(hash));
        for other in self.costs.iter().filter(|other| Some(cost(other)) != own) {
            is_password_of(other, password);
        }
        false
    }
}

/// The part of a hash that decides how long its verification takes.
fn cost(hash: &str) -> (&str, usize) {
    if hash.starts_with("$argon2") {
        // `$argon2id$v=19$m=65536,t=3,p=4`, and the lengths of the salt and the result.
        return (hash.rsplitn(3, '$').nth(2).unwrap_or(hash), hash.len());
    }
    // `12` of `$2y$12$…`
    (hash.get(4..6).unwrap_or(hash), 0)
}

/// Reason why a name and a password make no line.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum PasswordLineError {
    /// RFC 7617 §2: a colon ends the name, and neither part has control characters. A `#` would make a comment of it.
    #[error(
        "this cannot be a user's name, expected 1 to 255 bytes without `:`, control characters, spaces at the ends, and `#` at the beginning"
    )]
    Name,
    /// No password, or one that no client can send.
    #[error("this cannot be a password, expected 1 to 1024 bytes without control characters")]
    Password,
    /// The kernel has no random numbers, or the hash has no memory.
    #[error("hash the password: it failed, expected random numbers and {} MiB of memory", Params::DEFAULT_M_COST / 1024)]
    Hash,
}

/// Makes a line for a file of users: `name:hash`, with Argon2id and a new salt.
///
/// **Errors**: [`PasswordLineError`]. **Cost**: 19 MiB for some 20 ms.
pub fn password_line(name: &str, password: &str) -> Result<String, PasswordLineError> {
    let has_control = |text: &str| text.chars().any(char::is_control);
    if name.is_empty()
        || name.len() > 255
        || name.contains(':')
        || name.starts_with('#')
        || name.trim() != name
        || has_control(name)
    {
        return Err(PasswordLineError::Name);
    }
    if password.is_empty() || password.len() > 1024 || has_control(password) {
        return Err(PasswordLineError::Password);
    }
    // The hash by a random key is random.
    let salt = HashKey::random().map_err(|_| PasswordLineError::Hash)?.hash(&[]);
    let hash: PasswordHash = Argon2::default()
        .hash_password_with_salt(password.as_bytes(), &salt[..16])
        .map_err(|_| PasswordLineError::Hash)?;
    Ok(format!("{name}:{hash}"))
}

/// Notes the cost of a hash. **Errors**: there are too many different ones.
fn add_cost(costs: &mut Vec<Box<str>>, hash: &str) -> Result<(), (&'static str, &'static str)> {
    if costs.iter().any(|known| cost(known) == cost(hash)) {
        return Ok(());
    }
    if costs.len() == MAX_COSTS {
        let hint = "make the hashes with the same parameters";
        return Err((
            "the file has more than 16 different costs of hashes; a wrong password costs all of them",
            hint,
        ));
    }
    costs.push(hash.into());
    Ok(())
}

fn is_password_of(hash: &str, password: &[u8]) -> bool {
    if hash.starts_with("$argon2") {
        let Ok(hash) = PasswordHash::new(hash) else { return false };
        return Argon2::default().verify_password(password, &hash).is_ok();
    }
    bcrypt::verify(password, hash).unwrap_or(false)
}

/// Reason why a file of users cannot be used.
#[derive(Debug, thiserror::Error)]
pub(crate) enum UsersError {
    #[error("cannot be read: {0}")]
    Read(#[source] io::Error),
    #[error(transparent)]
    Random(#[from] handfast_tls::Error),
    /// Lines that are wrong; there is at least one.
    #[error("{}", lines_of(.0))]
    Lines(Vec<Problem>),
    /// This process cannot act as the user that serves.
    #[error(transparent)]
    User(#[from] handfast_process::error::Error),
}

impl UsersError {
    /// The first cure, if there is one.
    pub(crate) fn hint(&self) -> Option<&'static str> {
        match self {
            Self::Lines(problems) => problems.first().map(|problem| problem.hint),
            _ => None,
        }
    }
}

fn lines_of(problems: &[Problem]) -> String {
    let lines = problems.iter().map(|problem| format!("line {}: {}", problem.line, problem.what));
    lines.collect::<Vec<_>>().join("\n  ")
}

/// Reads a file of users.
///
/// **Errors**: what is wrong with it.
pub(crate) fn read(file: &Path) -> Result<Users, UsersError> {
    let text = read_text(file, FILE_LIMIT).map_err(UsersError::Read)?;
    Users::parse(&text, HashKey::random()?).map_err(UsersError::Lines)
}

/// Checks that a hash has a form that is verified. **Errors**: the problem and its hint.
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
        Some(4..=MAX_BCRYPT_COST) if hash.parse::<bcrypt::HashParts>().is_ok() => Ok(()),
        Some(16..) => {
            Err(("a check by this cost of bcrypt takes seconds; the most is 15", "use `htpasswd -B -C 12`"))
        }
        _ => Err(("this hash of bcrypt is malformed", HINT)),
    }
}

fn check_argon2(hash: &str) -> Result<(), (&'static str, &'static str)> {
    let broken = ("this hash of Argon2 is malformed", "make it again");
    let parsed = PasswordHash::new(hash).map_err(|_| broken)?;
    let params = Params::try_from(&parsed).map_err(|_| broken)?;
    if parsed.hash.is_none() || parsed.salt.is_none() {
        return Err(broken);
    }
    if params.m_cost() > MAX_ARGON2_KIB || params.t_cost() > MAX_ARGON2_PASSES {
        let hint = "make it again with m=65536, t=3";
        return Err(("a check by these parameters of Argon2 needs more than 256 MiB, or 16 passes", hint));
    }
    Ok(())
}

#[cfg(test)]
mod tests;
