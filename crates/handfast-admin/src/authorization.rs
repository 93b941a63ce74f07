//! Authorization of changes: the token of `admin.token-file`, in a request or proved by one.
//!
//! `Bearer` sends the token (RFC 6750 §2.1), which is safe only where no other program can listen at the address: a unix socket in a
//! folder of root. `Digest` (RFC 7616) proves it by a hash over a nonce of the server and the request, so that a program that took the
//! address of a stopped proxy learns nothing. Our own commands use `Digest` alone; curl does with `--digest -u :TOKEN`.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::time::{Duration, Instant};

use data_encoding::HEXLOWER;
use handfast_tls::keyed_hash::{HashKey, sha256};

/// The realm of all challenges (RFC 9110 §11.5).
const REALM: &str = "handfast";
/// Validity of a nonce: the time between a challenge and the request that answers it.
const NONCE_LIFETIME: Duration = Duration::from_secs(60);
/// Nonces in their lifetime that were used. Above it requests are refused, so that none is accepted twice.
const MAX_USED: usize = 4096;

/// The token that a request needs when it changes something.
#[derive(Clone)]
pub enum RequiredToken {
    /// No configuration is in effect yet: every change is refused.
    Unknown,
    /// `admin.token-file` is not configured.
    None,
    /// This one.
    Token(zeroize::Zeroizing<String>),
}

impl std::fmt::Debug for RequiredToken {
    /// Without the token.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("RequiredToken")
    }
}

/// The nonces of a listener.
#[derive(Debug)]
pub(super) struct Authenticator {
    key: HashKey,
    start: Instant,
    /// Number of issued nonces.
    issued: Cell<u64>,
    /// Nonces that were used, with the time when they expire.
    used: RefCell<VecDeque<(Instant, String)>>,
}

impl Authenticator {
    /// Draws a key for nonces. **Errors**: the kernel has no random numbers.
    pub(super) fn new() -> Result<Self, handfast_tls::Error> {
        let key = HashKey::random()?;
        Ok(Self { key, start: Instant::now(), issued: Cell::default(), used: RefCell::default() })
    }

    /// Returns a value for `WWW-Authenticate`, with a fresh nonce.
    pub(super) fn challenge(&self) -> String {
        // Two nonces of one millisecond differ.
        self.issued.update(|issued| issued + 1);
        let times = format!("{:x}.{:x}", self.start.elapsed().as_millis(), self.issued.get());
        let mac = self.mac(&times);
        format!("Digest realm=\"{REALM}\", nonce=\"{times}.{mac}\", algorithm=SHA-256, qop=\"auth\"")
    }

    /// Returns true if the value of `Authorization` has or proves the token for this request.
    pub(super) fn is_authorized(&self, token: &str, value: &str, method: &str, target: &str) -> bool {
        let Some((scheme, rest)) = value.split_once(' ') else { return false };
        match scheme.to_ascii_lowercase().as_str() {
            "bearer" => self.is_same(token, rest.trim()),
            "digest" => self.is_proved(token, rest, method, target),
            _ => false,
        }
    }

    fn is_proved(&self, token: &str, parameters: &str, method: &str, target: &str) -> bool {
        let Some(proof) = Proof::parse(parameters) else { return false };
        // The hash is of the target that the client names, so it must be the one that is requested (RFC 7616 §3.4.6).
        proof.uri == target
            && proof.realm == REALM
            && self.is_same(&proof.response(token, method), &proof.response)
            && self.takes(&proof.nonce)
    }

    /// Accepts a nonce of this listener once, in its lifetime.
    fn takes(&self, nonce: &str) -> bool {
        let now = Instant::now();
        let Some((times, mac)) = nonce.rsplit_once('.') else { return false };
        let Some(issued) = times.split('.').next().and_then(|millis| u64::from_str_radix(millis, 16).ok())
        else {
            return false;
        };
        let Some(expires) = self.start.checked_add(Duration::from_millis(issued) + NONCE_LIFETIME) else {
            return false;
        };
        let mut used = self.used.borrow_mut();
        used.retain(|(until, _)| *until > now);
        let is_accepted = expires > now
            && self.is_same(&self.mac(times), mac)
            && used.len() < MAX_USED
            && used.iter().all(|(_, known)| known != nonce);
        if is_accepted {
            used.push_back((expires, nonce.to_owned()));
        }
        is_accepted
    }

    /// Returns the part of a nonce that only this listener makes.
    fn mac(&self, times: &str) -> String {
        HEXLOWER.encode(&self.key.hash(&[times.as_bytes()]))
    }

    /// Compares in the same time whatever differs.
    fn is_same(&self, expected: &str, given: &str) -> bool {
        self.key.is_hash(&[given.as_bytes()], &self.key.hash(&[expected.as_bytes()]))
    }
}

/// Returns the value of `Authorization` that answers a challenge by proving the token; `None`: it is not one of a Handfast, with SHA-256 and
/// `qop=auth`.
///
/// **Errors**: the kernel has no random numbers.
pub(super) fn answer(
    challenge: &str,
    token: &str,
    method: &str,
    target: &str,
) -> Result<Option<String>, handfast_tls::Error> {
    let Some(parameters) = challenge.strip_prefix("Digest ") else { return Ok(None) };
    let parameters = parse_parameters(parameters);
    let value =
        |name: &str| parameters.iter().find(|(known, _)| known == name).map(|(_, value)| value.clone());
    let (Some(realm), Some(nonce)) = (value("realm"), value("nonce")) else { return Ok(None) };
    // Another program chose them, and they are written into a request.
    let is_known = realm == REALM
        && nonce.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'.')
        && value("algorithm").is_some_and(|algorithm| algorithm.eq_ignore_ascii_case("SHA-256"))
        && value("qop").is_some_and(|qop| qop.split(',').any(|one| one.trim() == "auth"));
    if !is_known {
        return Ok(None);
    }
    let cnonce = HEXLOWER.encode(&HashKey::random()?.hash(&[nonce.as_bytes()])[..16]);
    let mut proof = Proof {
        username: String::new(),
        realm,
        nonce,
        uri: target.to_owned(),
        nc: "00000001".into(),
        cnonce,
        response: String::new(),
    };
    proof.response = proof.response(token, method);
    Ok(Some(format!(
        "Digest username=\"\", realm=\"{}\", nonce=\"{}\", uri=\"{}\", algorithm=SHA-256, qop=auth, nc={}, cnonce=\"{}\", response=\"{}\"",
        proof.realm, proof.nonce, proof.uri, proof.nc, proof.cnonce, proof.response
    )))
}

/// The parameters of `Authorization: Digest` (RFC 7616 §3.4).
struct Proof {
    username: String,
    realm: String,
    nonce: String,
    uri: String,
    nc: String,
    cnonce: String,
    response: String,
}

impl Proof {
    fn parse(parameters: &str) -> Option<Self> {
        let mut parameters = parse_parameters(parameters);
        let mut value = |name: &str| {
            let at = parameters.iter().position(|(known, _)| known == name)?;
            Some(parameters.swap_remove(at).1)
        };
        let is_known = value("algorithm")?.eq_ignore_ascii_case("SHA-256") && value("qop")? == "auth";
        is_known.then_some(())?;
        Some(Self {
            username: value("username")?,
            realm: value("realm")?,
            nonce: value("nonce")?,
            uri: value("uri")?,
            nc: value("nc")?,
            cnonce: value("cnonce")?,
            response: value("response")?,
        })
    }

    /// Computes the response for a password (RFC 7616 §3.4.1).
    fn response(&self, password: &str, method: &str) -> String {
        let Self { username, realm, nonce, uri, nc, cnonce, .. } = self;
        let user = hash(&[username, realm, password]);
        let request = hash(&[method, uri]);
        hash(&[&user, nonce, nc, cnonce, "auth", &request])
    }
}

/// Returns the hexadecimal SHA-256 of parts with a colon between them.
fn hash(parts: &[&str]) -> String {
    HEXLOWER.encode(&sha256(parts.join(":").as_bytes()))
}

/// Reads `name=value` and `name="value"`, with commas between them (RFC 9110 §11.2); names in lower case.
fn parse_parameters(text: &str) -> Vec<(String, String)> {
    let mut found = Vec::new();
    let mut rest = text;
    while let Some((name, after)) = rest.split_once('=') {
        let Some((value, after)) = parse_value(after) else { break };
        found.push((name.trim().to_ascii_lowercase(), value));
        rest = after.trim_start().strip_prefix(',').unwrap_or_default();
    }
    found
}

/// Reads a token or a quoted string (RFC 9110 §5.6.4), and returns it with what follows; `None`: the string does not end.
fn parse_value(text: &str) -> Option<(String, &str)> {
    let Some(quoted) = text.strip_prefix('"') else {
        let (value, _) = text.split_once(',').unwrap_or((text, ""));
        return Some((value.trim().to_owned(), &text[value.len()..]));
    };
    let mut value = String::new();
    let mut letters = quoted.char_indices();
    while let Some((at, letter)) = letters.next() {
        match letter {
            '"' => return Some((value, &quoted[at + 1..])),
            '\\' => value.extend(letters.next().map(|(_, escaped)| escaped)),
            letter => value.push(letter),
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    const TOKEN: &str = "0123456789abcdef";

    fn authorized(authenticator: &Authenticator, value: &str) -> bool {
        authenticator.is_authorized(TOKEN, value, "POST", "/reload?a=b")
    }

    #[test]
    fn a_response_is_that_of_the_rfc() {
        // RFC 7616 §3.9.1.
        let proof = Proof::parse(
            "username=\"Mufasa\", realm=\"http-auth@example.org\", uri=\"/dir/index.html\", algorithm=SHA-256, \
             nonce=\"7ypf/xlj9XXwfDPEoM4URrv/xwf94BcCAzFZH4GiTo0v\", nc=00000001, \
             cnonce=\"f2/wE4q74E6zIJEtWaHKaf5wv/H5QzzpXusqGemxURZJ\", qop=auth, \
             response=\"753927fa0e85d155564e2e272a28d1802ca10daf4496794697cf8db5856cb6c1\", \
             opaque=\"FQhe/qaU925kfnzjCev0ciny7QMkPqMAFRtzCUYo5tdS\"",
        );
        let proof = proof.expect("all parameters");
        assert_eq!(proof.response("Circle of Life", "GET"), proof.response);
    }

    #[test]
    fn a_proof_is_for_one_request_and_accepted_once() {
        let authenticator = Authenticator::new().expect("random");
        let answered = |token, method, target| {
            answer(&authenticator.challenge(), token, method, target).expect("random").expect("a challenge")
        };
        let good = answered(TOKEN, "POST", "/reload?a=b");
        assert!(!good.contains(TOKEN), "{good}");
        assert!(authorized(&authenticator, &good));
        assert!(!authorized(&authenticator, &good), "a second time");
        for wrong in [
            answered("0123456789abcdeF", "POST", "/reload?a=b"),
            answered(TOKEN, "GET", "/reload?a=b"),
            answered(TOKEN, "POST", "/reload"),
        ] {
            assert!(!authorized(&authenticator, &wrong), "{wrong}");
        }
        let other = Authenticator::new().expect("random");
        let foreign = answer(&other.challenge(), TOKEN, "POST", "/reload?a=b").expect("random");
        assert!(!authorized(&authenticator, &foreign.expect("a challenge")), "a nonce of another process");
    }

    #[test]
    fn damaged_values_authorize_nothing() {
        let authenticator = Authenticator::new().expect("random");
        let good = answer(&authenticator.challenge(), TOKEN, "POST", "/reload?a=b").expect("random");
        let good = good.expect("a challenge");
        // Each beginning of a good value. A nonce is accepted once, so the good one comes last.
        for end in 0..good.len() {
            assert!(!authorized(&authenticator, &good[..end]), "{}", &good[..end]);
        }
        assert!(authorized(&authenticator, &good));
        for value in [
            "Bearer",
            "Bearer ",
            "Digest",
            "Digest ",
            "Digest =",
            "Digest ,,,",
            "Digest a=\"\\",
            "Basic OnRva2Vu",
        ] {
            assert!(!authorized(&authenticator, value), "{value}");
        }
        assert!(authorized(&authenticator, "bearer 0123456789abcdef"));
    }

    #[test]
    fn used_nonces_are_bounded_and_then_refused() {
        let authenticator = Authenticator::new().expect("random");
        let proved = || {
            let value = answer(&authenticator.challenge(), TOKEN, "POST", "/reload?a=b").expect("random");
            authorized(&authenticator, &value.expect("a challenge"))
        };
        assert!((0..MAX_USED).all(|_| proved()));
        assert!(!proved() && authenticator.used.borrow().len() == MAX_USED);
    }

    #[test]
    fn only_a_challenge_that_keeps_the_token_secret_is_answered() {
        for challenge in [
            "Bearer",
            "Basic realm=\"handfast\"",
            "Digest realm=\"handfast\", nonce=\"y\"",
            "Digest realm=\"handfast\", nonce=\"y\", algorithm=MD5, qop=\"auth\"",
            "Digest realm=\"handfast\", nonce=\"y\", algorithm=SHA-256",
            "Digest nonce=\"y\", algorithm=SHA-256, qop=\"auth\"",
            "Digest realm=\"other\", nonce=\"y\", algorithm=SHA-256, qop=\"auth\"",
            "Digest realm=\"handfast\", nonce=\"y\\\"\", algorithm=SHA-256, qop=\"auth\"",
            "Digest realm=\"handfast\", nonce=\"y\rX: z\", algorithm=SHA-256, qop=\"auth\"",
        ] {
            assert!(answer(challenge, TOKEN, "POST", "/reload").expect("random").is_none(), "{challenge}");
        }
    }
}
