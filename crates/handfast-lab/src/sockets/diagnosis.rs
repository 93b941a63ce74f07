//! Ends sockets from outside, as `ss --kill` and an administrator do.
//!
//! In: the addresses of a connection. Out: whether the kernel did it. One order of sock_diag(7), which goes to the network
//! namespace in which its socket was opened.

use std::net::SocketAddrV4;
use std::os::fd::OwnedFd;

use rustix::io::Errno;
use rustix::net::netlink::{INET_DIAG, SocketAddrNetlink};
use rustix::net::{self, AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType};

/// `SOCK_DESTROY` in linux/sock_diag.h.
const DESTROY_SOCKET: u16 = 21;
/// `NLM_F_REQUEST | NLM_F_ACK` in linux/netlink.h.
const REQUEST: u16 = 0x5;
/// `NLMSG_ERROR`, which carries 0 for success.
const ANSWER: u16 = 2;
const HEADER: usize = 16;
const IPV4: u8 = 2;
const TCP: u8 = 6;

/// A conversation with the kernel about sockets.
#[derive(Debug)]
pub(super) struct Diagnosis {
    socket: OwnedFd,
}

impl Diagnosis {
    /// Begins one, about the network that the thread is in.
    pub(super) fn open() -> Result<Self, Errno> {
        let flags = SocketFlags::CLOEXEC;
        let socket = net::socket_with(AddressFamily::NETLINK, SocketType::RAW, flags, Some(INET_DIAG))?;
        Ok(Self { socket })
    }

    /// Ends the TCP socket between these addresses.
    ///
    /// **Errors**: EOPNOTSUPP from a kernel without CONFIG_INET_DIAG_DESTROY; ENOENT when there is none; EPERM without
    /// CAP_NET_ADMIN.
    pub(super) fn destroy(&self, from: SocketAddrV4, to: SocketAddrV4) -> Result<(), Errno> {
        net::sendto(&self.socket, &order(from, to), SendFlags::empty(), &SocketAddrNetlink::new(0, 0))?;
        let mut answer = [0; 1024];
        // The kernel has answered before sendto(2) returned.
        let (_, length) = net::recv(&self.socket, &mut answer[..], RecvFlags::DONTWAIT)?;
        read_answer(answer.get(..length).unwrap_or_default())
    }
}

/// `struct nlmsghdr`, then `struct inet_diag_req_v2` in linux/inet_diag.h: in every state, and with any cookie.
fn order(from: SocketAddrV4, to: SocketAddrV4) -> Vec<u8> {
    let mut body = vec![IPV4, TCP, 0, 0];
    body.extend_from_slice(&u32::MAX.to_ne_bytes());
    body.extend_from_slice(&from.port().to_be_bytes());
    body.extend_from_slice(&to.port().to_be_bytes());
    for address in [from.ip(), to.ip()] {
        body.extend_from_slice(&address.octets());
        body.extend_from_slice(&[0; 12]);
    }
    body.extend_from_slice(&0_u32.to_ne_bytes());
    body.extend_from_slice(&[0xff; 8]);
    let mut message = Vec::with_capacity(HEADER + body.len());
    message.extend_from_slice(&((HEADER + body.len()) as u32).to_ne_bytes());
    message.extend_from_slice(&DESTROY_SOCKET.to_ne_bytes());
    message.extend_from_slice(&REQUEST.to_ne_bytes());
    message.extend_from_slice(&[0; 8]);
    message.extend_from_slice(&body);
    message
}

fn read_answer(answer: &[u8]) -> Result<(), Errno> {
    let kind = answer.get(4..6).map(|two| u16::from_ne_bytes([two[0], two[1]]));
    let error =
        answer.get(HEADER..HEADER + 4).map(|four| i32::from_ne_bytes([four[0], four[1], four[2], four[3]]));
    match (kind, error) {
        (Some(ANSWER), Some(0)) => Ok(()),
        (Some(ANSWER), Some(error)) => Err(Errno::from_raw_os_error(error.saturating_neg())),
        _ => Err(Errno::PROTO),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_order_has_the_kernels_layout() {
        let order =
            order("192.0.2.1:258".parse().expect("an address"), "192.0.2.2:772".parse().expect("one"));
        assert_eq!(order.len(), HEADER + 56, "struct inet_diag_req_v2");
        assert_eq!(order[..4], 72_u32.to_ne_bytes());
        assert_eq!(order[HEADER + 8..HEADER + 12], [1, 2, 3, 4], "ports in the order of the network");
        assert_eq!(order[HEADER + 12..HEADER + 16], [192, 0, 2, 1]);
        assert_eq!(order[HEADER + 28..HEADER + 32], [192, 0, 2, 2]);
    }

    #[test]
    fn an_answer_that_is_cut_off_is_none() {
        let mut answer = vec![0; HEADER + 4];
        answer[4..6].copy_from_slice(&ANSWER.to_ne_bytes());
        assert_eq!(read_answer(&answer), Ok(()));
        for end in 0..answer.len() {
            assert_eq!(read_answer(&answer[..end]), Err(Errno::PROTO), "{end} bytes");
        }
        answer[HEADER..].copy_from_slice(&(-2_i32).to_ne_bytes());
        assert_eq!(read_answer(&answer), Err(Errno::NOENT));
    }
}
