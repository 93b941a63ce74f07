//! Identification of the sender of a request, if its route asks for it: a password is verified. Meanwhile the client waits, and its content
//! with it.
//!
//! In: a request whose head was kept, and the gate of its route. Out: the request as its route serves it, with the facts about the user for
//! its backend; or a refusal.

use std::borrow::Cow;
use std::rc::Rc;
use std::time::Duration;

use data_encoding::BASE64;
use handfast_http::http1::{Field, RequestHead};
use handfast_leg::runtime::Runtime;
use handfast_net::engine::Woken;
use handfast_observe::cause::Cause;
use handfast_observe::reason::{CloseReason, Side, Step};
use zeroize::Zeroizing;

use crate::admission::gate::{Basic, Gate};
use crate::requests::client::Client;
use crate::requests::decide::connection::HttpConnection;
use crate::requests::decide::request::{Action, Request};
use crate::requests::head::field_name::is_same_field;
use crate::requests::head::refusal::{Refusal, retry_after};
use crate::requests::head::sender::Identified;
use crate::requests::relay::auth_server;
use crate::worker::request_routes::ThreadRequestRoute;

/// Bytes of `Authorization` that are read. bcrypt ends after 72 bytes of a password.
const MAX_CREDENTIALS_BYTES: usize = 1024;
/// Bytes of the name of a user that another server sends.
const MAX_NAME: usize = 1024;
/// Bytes of a name that the log has.
const MAX_LOGGED_NAME_BYTES: usize = 64;
/// Time after which a client should try again if too many passwords wait.
const BUSY_RETRY_AFTER: Duration = Duration::from_secs(1);

/// Identifies the sender of a request. Its action is then that of its route, or a refusal.
pub(crate) async fn identify<R: Runtime>(
    connection: &HttpConnection,
    client: &mut impl Client,
    request: &mut Request,
) {
    let unknown = Refusal::internal();
    let Action::Authenticate(accepted) =
        std::mem::replace(&mut request.action, Action::Refuse(Box::new(unknown)))
    else {
        return;
    };
    let head = accepted.head();
    let route = Rc::clone(&request.route);
    let Some(gate) = &route.gate else { return };
    match user::<R>(&route, gate, &head, connection, client).await {
        Ok(identified) => {
            let fields = forwarded(gate, &head);
            let head = RequestHead { fields: &fields, ..head };
            request.admit(&head, connection, &identified);
        }
        Err(refusal) => request.action = Action::Refuse(refusal),
    }
}

/// The fields that backends receive.
fn forwarded(gate: &Gate, head: &RequestHead<'_>) -> Vec<Field> {
    let drops_password = gate.basic.as_ref().is_some_and(|basic| !basic.passes);
    let copied = gate.forward.as_ref().map_or(&[][..], |forward| &forward.copy);
    let is_dropped = |name: &[u8]| {
        drops_password && name.eq_ignore_ascii_case(b"authorization")
            || copied.iter().any(|copied| is_same_field(name, copied.as_bytes()))
    };
    head.fields.iter().filter(|field| !is_dropped(field.name(head.text))).copied().collect()
}

async fn user<R: Runtime>(
    route: &ThreadRequestRoute,
    gate: &Gate,
    head: &RequestHead<'_>,
    connection: &HttpConnection,
    client: &mut impl Client,
) -> Result<Identified, Box<Refusal>> {
    let mut identified = Identified::default();
    if let Some(basic) = &gate.basic {
        identified.user = Some(password::<R>(basic, head, connection, client).await?);
    }
    if let (Some(model), Some(servers)) = (&gate.forward, &route.auth) {
        let server = auth_server::Server { model, servers };
        let copied = server.authorize::<R>(head, connection, client).await?;
        let is_name = |name: &str| name.to_ascii_lowercase().ends_with("user");
        if let Some((name, value)) = copied.iter().find(|(name, _)| is_name(name)) {
            identified.user = Some(user_name(value).ok_or_else(|| unusable_name(name))?);
        }
        identified.added = copied;
    }
    Ok(identified)
}

/// The user, if the password is right.
async fn password<R: Runtime>(
    basic: &Basic,
    head: &RequestHead<'_>,
    connection: &HttpConnection,
    client: &mut impl Client,
) -> Result<Box<str>, Box<Refusal>> {
    let (name, password) = credentials(head).map_err(|what| unauthenticated(basic, what.into()))?;
    let digest = basic.users.digest(&name, &password);
    let passwords = &connection.thread.passwords;
    if passwords.borrow().has(&digest, R::turn()) {
        return Ok(name);
    }
    let given = basic.verifier.give(&basic.users, (&name, &password), digest, R::waker());
    let Some(pending) = given else { return Err(busy("the queue of passwords is full")) };
    let deadline = R::turn().deadline(connection.service.model.limits.handshake);
    loop {
        match pending.outcome() {
            Some(true) => break,
            Some(false) => {
                return Err(unauthenticated(
                    basic,
                    format!("the password of `{}` is wrong", shortened(&name)),
                ));
            }
            None => {}
        }
        client.before_wait().map_err(Refusal::gone)?;
        let woken = R::wait(deadline).await;
        client.after_wait().map_err(Refusal::gone)?;
        connection.check_phase(Step::Route).map_err(Refusal::gone)?;
        if woken == Woken::Deadline && R::turn() >= deadline {
            return Err(busy("the password waited for too long"));
        }
    }
    passwords.borrow_mut().add(digest, R::turn());
    Ok(name)
}

/// The user that another server names, whole: two users must not become one.
fn user_name(value: &[u8]) -> Option<Box<str>> {
    let name = str::from_utf8(value).ok().filter(|name| name.len() <= MAX_NAME)?;
    (!name.chars().any(char::is_control)).then(|| name.into())
}

fn unusable_name(field: &str) -> Box<Refusal> {
    let detail = format!("forward-auth: the user in {field} is not a text of at most {MAX_NAME} bytes");
    Box::new(Refusal::new(502, Side::Backend, Cause::HttpResponse, detail))
}

/// The beginning of a name, for the log.
fn shortened(name: &str) -> &str {
    &name[..name.floor_char_boundary(MAX_LOGGED_NAME_BYTES)]
}

/// Name and password that a request has (RFC 7617 §2).
///
/// **Errors**: why there are none.
fn credentials(head: &RequestHead<'_>) -> Result<(Box<str>, Zeroizing<Vec<u8>>), &'static str> {
    let mut values = head.values("authorization");
    let value = values.next().ok_or("it has no password")?;
    if values.next().is_some() {
        return Err("it has the field Authorization twice");
    }
    let is_basic = value.get(..6).is_some_and(|scheme| scheme.eq_ignore_ascii_case(b"basic "));
    if !is_basic {
        return Err("its field Authorization is of another scheme");
    }
    let encoded = value[6..].trim_ascii();
    if encoded.len() > MAX_CREDENTIALS_BYTES {
        return Err("its password is longer than 1,024 bytes");
    }
    let decoded = Zeroizing::new(BASE64.decode(encoded).map_err(|_| "its password is not in base64")?);
    let colon = decoded.iter().position(|byte| *byte == b':').ok_or("its password has no name in front")?;
    let name = str::from_utf8(&decoded[..colon]).map_err(|_| "its name is not UTF-8")?;
    if name.chars().any(char::is_control) {
        return Err("its name has control characters");
    }
    Ok((name.into(), Zeroizing::new(decoded[colon + 1..].to_vec())))
}

fn unauthenticated(basic: &Basic, detail: String) -> Box<Refusal> {
    let challenge = format!("Basic realm=\"{}\", charset=\"UTF-8\"", basic.realm);
    let refusal = Refusal::new(401, Side::Client, Cause::Unauthenticated, detail);
    Box::new(refusal.with(vec![(Cow::Borrowed("WWW-Authenticate"), challenge.into_bytes())]))
}

fn busy(detail: &str) -> Box<Refusal> {
    let reason = CloseReason::new(Step::Route, Side::Local, Cause::AuthenticationBusy).because(detail);
    Box::new(Refusal::of(503, reason).with(vec![retry_after(BUSY_RETRY_AFTER)]))
}

#[cfg(test)]
mod tests {
    use handfast_http::http1::HeadLimits;

    use super::*;
    use crate::requests::testing::{head, with_head};

    fn read(lines: &[&str]) -> Result<(String, String), &'static str> {
        let lines = [&["GET / HTTP/1.1", "Host: a.example"], lines].concat();
        let text = |(name, password): (Box<str>, Zeroizing<Vec<u8>>)| {
            (name.into(), String::from_utf8_lossy(&password).into_owned())
        };
        with_head(&head(&lines), &HeadLimits::default(), |head| credentials(head).map(text))
    }

    #[test]
    fn a_password_is_read_as_clients_send_it() {
        // `printf 'Aladdin:open sesame' | base64`
        for field in [
            "Authorization: Basic QWxhZGRpbjpvcGVuIHNlc2FtZQ==",
            "authorization: basic  QWxhZGRpbjpvcGVuIHNlc2FtZQ==",
        ] {
            assert_eq!(read(&[field]), Ok(("Aladdin".to_owned(), "open sesame".to_owned())), "{field}");
        }
        // `a:b:c`, and no password.
        assert_eq!(read(&["Authorization: Basic YTpiOmM="]), Ok(("a".to_owned(), "b:c".to_owned())));
        assert_eq!(read(&["Authorization: Basic YTo="]), Ok(("a".to_owned(), String::new())));
    }

    #[test]
    fn no_two_users_that_another_server_names_become_one() {
        let long = "a".repeat(MAX_NAME);
        for name in ["alice", "älice", "a, b", &long] {
            assert_eq!(user_name(name.as_bytes()).as_deref(), Some(name));
        }
        for name in [&b"alice\xff"[..], b"a\tb", &[b'a'; MAX_NAME + 1]] {
            assert_eq!(user_name(name), None, "{}", name.escape_ascii());
        }
    }

    #[test]
    fn what_is_no_password_has_its_reason() {
        for (fields, expected) in [
            (&[][..], "it has no password"),
            (
                &["Authorization: Basic YTo=", "Authorization: Basic YTo="],
                "it has the field Authorization twice",
            ),
            (&["Authorization: Bearer YTo="], "its field Authorization is of another scheme"),
            (&["Authorization: Basic"], "its field Authorization is of another scheme"),
            (&["Authorization: Basic YT"], "its password is not in base64"),
            (&["Authorization: Basic YQ=="], "its password has no name in front"),
            (&["Authorization: Basic /zo="], "its name is not UTF-8"),
            (&["Authorization: Basic Cjo="], "its name has control characters"),
        ] {
            assert_eq!(read(fields), Err(expected), "{fields:?}");
        }
    }
}
