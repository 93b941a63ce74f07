//! HTTP to an issuer: one request for each connection, by HTTP/1.1 over TLS.
//!
//! In: a request of the ACME library. Out: its response, of bounded size, within a deadline. It waits on a separate thread, not on the
//! one that makes the request. An issuer receives some twenty requests for a certificate, so a connection for each request costs nothing
//! that counts.

use std::collections::BTreeMap;
use std::future::Future;
use std::io;
use std::net::{SocketAddr, ToSocketAddrs};
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use crate::error::Error;
use crate::jws::{AccountSigner, sign_again};
use crate::record::MAX_RETRY_AFTER_SECONDS;
use bytes::Bytes;
use handfast_leg::blocking::{Connection, Got, Hello, Line};
use handfast_net::clock::Moment;
use handfast_pki::files::read;
use handfast_text::foreign::excerpt;
use handfast_tls::client::{Client, ClientSettings, Verification};
use http::{HeaderName, HeaderValue, Request, Response, StatusCode, Uri};
use http_body_util::{BodyExt, Full};
use instant_acme::{BodyWrapper, BytesResponse, Error as AcmeError, HttpClient};
use serde_json::Value;

/// For one request and its response, with the connect and the handshake.
const TIMEOUT: Duration = Duration::from_secs(30);
/// Bytes of a response that are read. The longest are chains, of some 15 KiB.
const MAX_RESPONSE_BYTES: usize = 1 << 20;
/// Bytes of the file with the authorities.
const MAX_CA_BYTES: u64 = 4 << 20;
const MAX_FIELDS: usize = 64;
/// Bytes of one read.
const READ: usize = 16 << 10;

/// Trusted CAs, target and signer of requests.
#[derive(Clone, Debug)]
pub(crate) struct Transport {
    ca: Option<PathBuf>,
    /// The URL of the issuer's directory.
    directory: Uri,
    signer: Option<Arc<dyn AccountSigner>>,
    /// The key of an account that was made elsewhere, which a request for a new account is signed with too.
    binding: Option<Arc<[u8]>>,
    /// Seconds that the issuer's last response asks to wait; 0: none.
    pause: Arc<AtomicI64>,
}

impl Transport {
    /// `ca`: file of the authorities that may sign the certificate of the issuer's server.
    ///
    /// **Errors**: the directory has no URL that can be used.
    pub(crate) fn new(ca: Option<&Path>, directory: &str) -> Result<Self, Error> {
        let unusable = |error: io::Error| Error::Issuer {
            act: "use the directory",
            what: error.to_string(),
            pause: None,
        };
        let directory = endpoint(directory).map_err(unusable)?;
        let ca = ca.map(Path::to_owned);
        Ok(Self { ca, directory, signer: None, binding: None, pause: Arc::default() })
    }

    /// With this every request is signed again.
    pub(crate) fn signed_by(mut self, signer: Arc<dyn AccountSigner>, binding: Option<Vec<u8>>) -> Self {
        self.signer = Some(signer);
        self.binding = binding.map(Into::into);
        self
    }

    /// For how long the last refusal asks to wait.
    pub(crate) fn pause(&self) -> Option<i64> {
        Some(self.pause.swap(0, Ordering::Relaxed)).filter(|pause| *pause > 0)
    }
}

impl HttpClient for Transport {
    fn request(
        &self,
        request: Request<BodyWrapper<Bytes>>,
    ) -> Pin<Box<dyn Future<Output = Result<BytesResponse, AcmeError>> + Send>> {
        let Self { ca, directory, signer, binding, pause } = self.clone();
        Box::pin(async move {
            let (head, body) = request.into_parts();
            let body = body.collect().await.map_or_else(|_| Bytes::new(), |body| body.to_bytes());
            let exchange = tokio::task::spawn_blocking(move || {
                let signed = match signer.filter(|_| head.method == http::Method::POST) {
                    Some(signer) => {
                        sign_again(&body, &*signer, binding.as_deref()).map_err(io::Error::other)?
                    }
                    None => body.to_vec(),
                };
                let response = exchange(&head, &signed, ca.as_deref())?;
                if head.uri == directory {
                    check_directory(response.body())?;
                }
                Ok(response)
            });
            let outcome = exchange.await.map_err(io::Error::other).and_then(|outcome| outcome);
            let mut response = outcome.map_err(|error| AcmeError::Other(Box::new(error)))?;
            bound_pause(&mut response);
            if response.status() == StatusCode::TOO_MANY_REQUESTS || response.status().is_server_error() {
                pause.store(retry_after(&response).unwrap_or(0), Ordering::Relaxed);
            }
            Ok(BytesResponse::from(response.map(|body| Full::new(Bytes::from(body)))))
        })
    }
}

/// Shortens a pause that the issuer asks for: the library adds it to the time, and panics where that has no sum.
fn bound_pause(response: &mut Response<Vec<u8>>) {
    let is_number = |value: &HeaderValue| value.as_bytes().trim_ascii().iter().all(u8::is_ascii_digit);
    if let Some(value) = response.headers_mut().get_mut(http::header::RETRY_AFTER)
        && is_number(value)
        && value
            .to_str()
            .ok()
            .and_then(|text| text.trim().parse().ok())
            .is_none_or(|pause: i64| pause > MAX_RETRY_AFTER_SECONDS)
    {
        *value = HeaderValue::from(MAX_RETRY_AFTER_SECONDS);
    }
}

/// Checks the endpoints of an issuer's directory (RFC 8555 §7.1.1, RFC 9773 §4.1) before the library uses them: it panics at some that
/// are no URL. A directory of another form is reported by the library.
fn check_directory(body: &[u8]) -> io::Result<()> {
    let fields: BTreeMap<String, Value> = serde_json::from_slice(body).unwrap_or_default();
    for name in ["newNonce", "newAccount", "newOrder", "newAuthz", "revokeCert", "keyChange", "renewalInfo"] {
        if let Some(url) = fields.get(name).and_then(Value::as_str) {
            endpoint(url).map_err(|error| io::Error::other(format!("{name} of the directory: {error}")))?;
        }
    }
    Ok(())
}

fn endpoint(url: &str) -> io::Result<Uri> {
    let bad = || io::Error::other(format!("{}: expected https:// and a host", excerpt(url)));
    let parsed: Uri = url.parse().map_err(|_| bad())?;
    place(&parsed).map_err(|_| bad())?;
    Ok(parsed)
}

/// Seconds. A date is not read: the backoff is as good.
fn retry_after(response: &Response<Vec<u8>>) -> Option<i64> {
    response.headers().get(http::header::RETRY_AFTER)?.to_str().ok()?.trim().parse().ok()
}

fn exchange(head: &http::request::Parts, body: &[u8], ca: Option<&Path>) -> io::Result<Response<Vec<u8>>> {
    let until = Moment::now() + TIMEOUT;
    let (host, port) = place(&head.uri)?;
    let mut connection = connect(host, port, ca, until)?;
    connection.send(&written(head, host, port, body), until).map_err(io::Error::other)?;
    let mut received = Vec::new();
    loop {
        if let Some(response) = parse(&received, connection.is_closed, head.method == http::Method::HEAD)? {
            return Ok(response);
        }
        if connection.is_closed || received.len() > MAX_RESPONSE_BYTES {
            return Err(io::Error::other("the response is cut short, or longer than a mebibyte"));
        }
        match connection.receive(READ, until).map_err(io::Error::other)? {
            Got::Bytes(_) => {}
            // The end of TCP without close_notify: only a response with a length is whole then.
            Got::End => connection.is_closed = true,
            Got::Nothing => return Err(io::Error::new(io::ErrorKind::TimedOut, "no whole response in time")),
        }
        received.extend_from_slice(connection.plaintext.filled());
        connection.plaintext.clear();
    }
}

fn place(uri: &Uri) -> io::Result<(&str, u16)> {
    let bad = || {
        io::Error::new(
            io::ErrorKind::InvalidInput,
            format!("{}: expected https:// and a host", excerpt(&uri.to_string())),
        )
    };
    let host = uri.host().filter(|_| uri.scheme_str() == Some("https")).ok_or_else(bad)?;
    Ok((host.trim_start_matches('[').trim_end_matches(']'), uri.port_u16().unwrap_or(443)))
}

fn connect(host: &str, port: u16, ca: Option<&Path>, until: Moment) -> io::Result<Connection> {
    let about = |error: &dyn std::fmt::Display| io::Error::other(format!("{host}:{port}: {error}"));
    let verification = match ca {
        None => Verification::System,
        Some(path) => Verification::Roots(
            read(path, MAX_CA_BYTES)
                .map_err(|error| io::Error::other(format!("read {}: {error}", path.display())))?
                .to_vec(),
        ),
    };
    let is_address = host.parse::<std::net::IpAddr>().is_ok();
    let server_name = (!is_address).then(|| host.to_owned());
    let settings = ClientSettings { server_name, verification, ..ClientSettings::default() };
    let client = Client::new(&settings, host).map_err(|error| about(&error))?;
    let addresses: Vec<SocketAddr> = (host, port).to_socket_addrs().map_err(|error| about(&error))?.collect();
    let mut last = None;
    for address in addresses {
        match Line::connect(address, until) {
            Ok(line) => return secure(line, &client, until).map_err(|error| about(&error)),
            Err(error) => last = Some(about(&error)),
        }
    }
    Err(last.unwrap_or_else(|| about(&"it has no address")))
}

fn secure(line: Line, client: &Client, until: Moment) -> Result<Connection, handfast_leg::blocking::Failed> {
    let hello = Hello::new(client, false, &[])?;
    let mut connection = Connection::new(line, Some(hello.session));
    connection.line.send(hello.bytes.filled(), until)?;
    connection.shake(until)?;
    Ok(connection)
}

fn written(head: &http::request::Parts, host: &str, port: u16, body: &[u8]) -> Vec<u8> {
    let target = head.uri.path_and_query().map_or("/", |target| target.as_str());
    let host = if host.contains(':') { format!("[{host}]") } else { host.to_owned() };
    let mut text = format!("{} {target} HTTP/1.1\r\nHost: {host}:{port}\r\n", head.method);
    let mut fields: BTreeMap<&str, &[u8]> = BTreeMap::new();
    for (name, value) in &head.headers {
        fields.insert(name.as_str(), value.as_bytes());
    }
    let product = concat!("handfast/", env!("CARGO_PKG_VERSION"));
    fields.insert("user-agent", product.as_bytes());
    for (name, value) in fields {
        text.push_str(&format!("{name}: {}\r\n", String::from_utf8_lossy(value)));
    }
    text.push_str(&format!("Content-Length: {}\r\nConnection: close\r\n\r\n", body.len()));
    [text.as_bytes(), body].concat()
}

/// The response, when it is whole; `is_over`: nothing more comes.
fn parse(received: &[u8], is_over: bool, has_no_body: bool) -> io::Result<Option<Response<Vec<u8>>>> {
    let bad = |what: &dyn std::fmt::Display| {
        io::Error::new(io::ErrorKind::InvalidData, format!("response: {what}"))
    };
    let mut fields = [httparse::EMPTY_HEADER; MAX_FIELDS];
    let mut parsed = httparse::Response::new(&mut fields);
    let length = match parsed.parse(received).map_err(|error| bad(&error))? {
        httparse::Status::Complete(length) => length,
        httparse::Status::Partial => return Ok(None),
    };
    let status = StatusCode::from_u16(parsed.code.unwrap_or(0)).map_err(|error| bad(&error))?;
    let mut response = Response::new(());
    *response.status_mut() = status;
    for field in parsed.headers.iter() {
        let name = HeaderName::from_bytes(field.name.as_bytes()).map_err(|error| bad(&error))?;
        let value = HeaderValue::from_bytes(field.value).map_err(|error| bad(&error))?;
        response.headers_mut().append(name, value);
    }
    let rest = &received[length..];
    let value = |name: HeaderName| response.headers().get(name).and_then(|value| value.to_str().ok());
    let is_chunked =
        value(http::header::TRANSFER_ENCODING).is_some_and(|value| value.eq_ignore_ascii_case("chunked"));
    let announced = value(http::header::CONTENT_LENGTH).map(str::parse::<usize>);
    let body = if has_no_body || status == StatusCode::NO_CONTENT {
        Some(Vec::new())
    } else if is_chunked {
        chunks(rest)?
    } else if let Some(announced) = announced {
        let announced = announced.map_err(|error| bad(&error))?;
        rest.get(..announced).map(<[u8]>::to_vec)
    } else {
        is_over.then(|| rest.to_vec())
    };
    Ok(body.map(|body| response.map(|()| body)))
}

/// The content of a chunked body (RFC 9112 §7.1), when it is whole.
fn chunks(mut rest: &[u8]) -> io::Result<Option<Vec<u8>>> {
    let bad = || io::Error::new(io::ErrorKind::InvalidData, "response: a chunk of no length");
    let mut body = Vec::new();
    loop {
        let (start, size) = match httparse::parse_chunk_size(rest).map_err(|_| bad())? {
            httparse::Status::Complete(chunk) => chunk,
            httparse::Status::Partial => return Ok(None),
        };
        if size == 0 {
            return Ok(Some(body));
        }
        let size = usize::try_from(size).ok().filter(|size| *size <= MAX_RESPONSE_BYTES).ok_or_else(bad)?;
        let Some(content) = rest.get(start..start + size) else { return Ok(None) };
        body.extend_from_slice(content);
        let Some(next) = rest.get(start + size + 2..) else { return Ok(None) };
        rest = next;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn whole(text: &str, is_over: bool) -> Option<(u16, String)> {
        let response = parse(text.as_bytes(), is_over, false).expect("it is a response")?;
        Some((response.status().as_u16(), String::from_utf8(response.into_body()).expect("text")))
    }

    #[test]
    fn a_response_ends_by_its_length_its_chunks_or_the_connection() {
        let ok = |body: &str| Some((200, body.to_owned()));
        assert_eq!(whole("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nab", false), ok("ab"));
        assert_eq!(whole("HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nab", true), None);
        let chunked = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nab\r\n1\r\nc\r\n0\r\n\r\n";
        assert_eq!(whole(chunked, false), ok("abc"));
        for end in 0..chunked.len() - 2 {
            let part = parse(&chunked.as_bytes()[..end], false, false);
            assert!(matches!(part, Ok(None)), "{end}: {part:?}");
        }
        assert_eq!(whole("HTTP/1.1 200 OK\r\n\r\nab", false), None);
        assert_eq!(whole("HTTP/1.1 200 OK\r\n\r\nab", true), ok("ab"));
        assert_eq!(
            whole("HTTP/1.1 503 Busy\r\nContent-Length: 0\r\n\r\n", false),
            Some((503, String::new()))
        );
    }

    #[test]
    fn what_is_no_response_is_an_error() {
        for bad in [
            "SSH-2.0-x\r\n\r\n",
            "HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n",
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nffffffff\r\n",
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nxy\r\n",
        ] {
            assert!(parse(bad.as_bytes(), true, false).is_err(), "{bad}");
        }
    }

    #[test]
    fn endpoints_of_a_directory_are_checked_before_they_are_used() {
        let names =
            ["newNonce", "newAccount", "newOrder", "newAuthz", "revokeCert", "keyChange", "renewalInfo"];
        let good = "https://ca.example/x";
        for name in names {
            let directory = |url: &str| serde_json::to_vec(&serde_json::json!({ name: url })).expect("JSON");
            check_directory(&directory(good)).expect("a URL");
            for bad in [
                "",
                "a b",
                "https://",
                "http://ca.example/",
                "/x",
                "https://[::1/",
                "https://a\u{1b}[2J/",
                &"x".repeat(70_000),
            ] {
                let error = check_directory(&directory(bad)).expect_err(bad).to_string();
                assert!(
                    error.starts_with(name) && error.chars().count() < 600 && !error.contains('\u{1b}'),
                    "{error}"
                );
            }
        }
        // The library reports what is no directory.
        for other in ["[]", "no JSON", r#"{"newNonce": 7}"#] {
            check_directory(other.as_bytes()).expect("nothing to check");
        }
        assert!(Transport::new(None, "not a url at all\u{7f}").is_err());
    }

    #[test]
    fn a_pause_has_a_bound() {
        for (value, expected) in [
            ("120", "120"),
            ("18446744073709551615", "86400"),
            ("9999999999999999999999999", "86400"),
            ("Fri, 31 Dec 9999 23:59:59 GMT", "Fri, 31 Dec 9999 23:59:59 GMT"),
        ] {
            let mut response = Response::new(Vec::new());
            response.headers_mut().insert(http::header::RETRY_AFTER, value.parse().expect("a value"));
            bound_pause(&mut response);
            assert_eq!(response.headers()[http::header::RETRY_AFTER], expected);
        }
    }

    #[test]
    fn nothing_is_sent_without_tls() {
        for uri in ["http://ca.example/", "/", "https:///x"] {
            let uri: Result<Uri, _> = uri.parse();
            assert!(uri.is_err() || uri.is_ok_and(|uri| place(&uri).is_err()));
        }
        let uri: Uri = "https://[::1]:14000/dir?x=1".parse().expect("a URI");
        assert_eq!(place(&uri).expect("good"), ("::1", 14_000));
    }
}
