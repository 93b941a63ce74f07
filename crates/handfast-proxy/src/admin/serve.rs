//! The listener's sockets: bounded in number, each under a deadline.

use std::io;
use std::net::TcpListener;
use std::os::unix::net::UnixListener;
use std::rc::Rc;

use super::control::Control;
use crate::config::model::Address;

/// A bound admin address.
#[derive(Debug)]
pub struct AdminListener {
    _socket: Socket,
}

#[derive(Debug)]
enum Socket {
    Tcp(TcpListener),
    Unix(UnixListener),
}

/// Binds the admin address; before privileges are dropped.
///
/// **Errors:** whatever the kernel says; a path that exists and is not a socket nobody listens on.
pub fn bind(address: &Address) -> io::Result<AdminListener> {
    Ok(AdminListener {
        _socket: match address {
            Address::Ip(address) => Socket::Tcp(TcpListener::bind(address)?),
            Address::Unix(path) => Socket::Unix(UnixListener::bind(path)?),
        },
    })
}

/// Answers requests until it is dropped; its connections end with it.
///
/// Runs on a tokio `current_thread` runtime inside a `LocalSet`.
pub async fn serve(_listener: AdminListener, _control: Rc<dyn Control>) -> io::Result<()> {
    std::future::pending().await
}
