//! Hashes that are read, hashes that are refused, and the passwords that match them.

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
        Some(
            "line 1: there is no user\n  hint: make the line by `handfast hash-password NAME`, which asks for the password"
        )
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

/// Work is counted, not timed: the costs of all hashes that a wrong password is verified by.
#[test]
fn a_wrong_password_costs_the_same_for_every_name() {
    let bcrypt = |cost: u32| BCRYPT.replace("$04$", &format!("${cost:02}$"));
    let argon2 = |memory: u32| ARGON2.replace("m=256", &format!("m={memory}"));
    for file in [
        vec![bcrypt(4)],
        vec![bcrypt(4), bcrypt(12)],
        vec![bcrypt(12), bcrypt(4), bcrypt(4), bcrypt(15)],
        vec![argon2(256), bcrypt(10), argon2(65_536), bcrypt(10), argon2(256)],
        (4..=15).map(bcrypt).chain([argon2(256), argon2(512)]).collect(),
        vec![bcrypt(5).replace("$2y$", "$2a$"), bcrypt(5), bcrypt(6)],
    ] {
        let lines: String = (0..).zip(&file).map(|(user, hash)| format!("user{user}:{hash}\n")).collect();
        let users = parse(&lines).expect("right");
        let work = |name: &str| {
            let mut costs = Vec::new();
            let is_right = users.verify_by(name, b"wrong", &mut |hash, _| {
                let (text, length) = cost(hash);
                costs.push((text.to_owned(), length));
                false
            });
            assert!(!is_right);
            costs.sort();
            costs
        };
        let unknown = work("unknown");
        assert!(!unknown.is_empty());
        for user in 0..file.len() {
            assert_eq!(work(&format!("user{user}")), unknown, "user{user} of {lines}");
        }
        // A right password is verified once.
        let mut count = 0;
        assert!(users.verify_by("user0", b"right", &mut |_, _| {
            count += 1;
            true
        }));
        assert_eq!(count, 1);
        // The password of another user is none for an unknown name.
        assert!(!users.verify_by("unknown", b"right", &mut |_, _| true));
    }
}

#[test]
fn a_file_with_too_many_costs_is_refused() {
    let lines: String = (0..17)
        .map(|user| format!("u{user}:{}\n", ARGON2.replace("m=256", &format!("m={}", 256 + user))))
        .collect();
    let problems = parse(&lines).expect_err("too many");
    assert_eq!(problems.len(), 1);
    assert!(problems[0].line == 17 && problems[0].what.contains("different costs"), "{}", problems[0]);
}

#[test]
fn a_line_that_is_made_here_is_read_and_verified() {
    let line = password_line("alice", "correct horse").expect("it can be hashed");
    assert!(line.starts_with("alice:$argon2id$v=19$m=19456,t=2,p=1$"), "{line}");
    let again = password_line("alice", "correct horse").expect("it can be hashed");
    assert_ne!(line, again, "each has its own salt");
    let users = Users::parse(&line, HashKey::random().expect("random")).expect("it can be read");
    assert!(users.verify("alice", b"correct horse") && !users.verify("alice", b"wrong"));
    for name in ["", "a:b", "#a", " a", "a\n", &"a".repeat(256)] {
        assert_eq!(password_line(name, "x"), Err(PasswordLineError::Name), "{name:?}");
    }
    for password in ["", "a\nb", "\u{7f}", &"a".repeat(1025)] {
        assert_eq!(password_line("a", password), Err(PasswordLineError::Password), "{password:?}");
    }
}
