//! Which hashes are read, which are refused, and which passwords they fit.

use super::*;

fn parse(text: &str) -> Result<Users, Vec<Problem>> {
    Users::parse(text, HashKey::random().expect("random numbers"))
}

/// `htpasswd -nbB -C 4 alice wonderland`
const BCRYPT: &str = "$2y$04$.QqgIUhog8c.srso2zmNGOjywx7AvnfefKghJnaD7BxJB7nDUMDvy";
/// `printf wonderland | argon2 saltsalt -id -m 8 -t 1 -p 1 -e`
const ARGON2: &str = "$argon2id$v=19$m=256,t=1,p=1$c2FsdHNhbHQ$xIpDiJN4aLDQpb/iYDhsApNS+HicRia07M36Gb8Ai6I";

#[test]
fn both_kinds_of_hashes_are_verified() {
    let users = parse(&format!("# users\n\nalice:{BCRYPT}\nbob:{ARGON2}:a comment\n")).expect("right");
    for name in ["alice", "bob"] {
        assert!(users.verify(name, b"wonderland"), "{name}");
        assert!(!users.verify(name, b"wonderlan"), "{name}");
        assert!(!users.verify(name, b""), "{name}");
    }
    assert!(
        !users.verify("carol", b"wonderland"),
        "the password of another user, for a name that is not there"
    );
}

#[test]
fn each_line_that_is_wrong_is_named_with_its_reason() {
    let text = format!(
        "a:$apr1$tSx2y3uM$6zLpCBZUDyF0dzgNPwT1x.\nb:{{SHA}}W6ph5Mm5Pz8GgiULbPgzG37mj9g=\nc:secret\nd\n:x\n\
         e:$6$salt$x\nf:rqXexS6ZhobKA\ng:{}\nh:{}\ni:$2x$05$x\nj:$argon2id$v=19$m=65536,t=3\n\
         k:{}\nalice:{BCRYPT}\nalice:{BCRYPT}\n",
        BCRYPT.replace("$04$", "$16$"),
        &BCRYPT[..50],
        ARGON2.replace("m=256", "m=2097152"),
    );
    let problems = parse(&text).expect_err("nearly nothing is right");
    let found: Vec<(usize, &str)> = problems
        .iter()
        .map(|problem| (problem.line, problem.what.split([':', ' ']).next().unwrap_or("")))
        .collect();
    assert_eq!(
        found,
        [
            (1, "apr1"),
            (2, "SHA-1"),
            (3, "this"),
            (4, "it"),
            (5, "it"),
            (6, "hashes"),
            (7, "hashes"),
            (8, "a"),
            (9, "this"),
            (10, "this"),
            (11, "this"),
            (12, "a"),
            (14, "the"),
        ]
    );
    assert!(problems[2].what.contains("plain text"), "{}", problems[2]);
    assert_eq!(
        parse("# none\n").expect_err("nobody").first().map(ToString::to_string).as_deref(),
        Some("line 1: there is no user\n  hint: make the line by `htpasswd -B`, which asks for the password")
    );
}

#[test]
fn what_is_remembered_is_of_one_user_and_one_reading() {
    let read = || parse(&format!("alice:{BCRYPT}\n")).expect("right");
    let (first, second) = (read(), read());
    assert!(first.is_same(&second));
    assert_eq!(first.digest("alice", b"x"), first.digest("alice", b"x"));
    assert_ne!(first.digest("alice", b"x"), second.digest("alice", b"x"));
    assert_ne!(first.digest("alice", b"x"), first.digest("alic", b"ex"), "where the name ends counts");
}
