//! One host of the lab: a network namespace, and things done in it.
//!
//! A network namespace belongs to a thread. So whatever is done in a host is done by a thread that has gone there; what it
//! opens or starts belongs to the host, and stays there.

use std::fs::File;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::os::fd::{AsFd, BorrowedFd};
use std::process::{Child, Command};

use handfast_net::sys::spawn::unblocked;
use nix::sched::{CloneFlags, setns, unshare};

use crate::error::LabError;
use crate::namespace::{Inside, parameter, plain, put};
use crate::netlink::{Cable, Netlink, Prefix, Way};

/// Both ends of a cable have this Ethernet address (locally administered): each has one neighbour there, and knows it.
pub(crate) const NEIGHBOUR: [u8; 6] = [0x02, 0x6c, 0x61, 0x62, 0, 1];

/// A host: nothing but loopback in it, up.
#[derive(Debug)]
pub struct Host {
    inside: Inside,
    name: String,
    network: File,
}

impl Host {
    /// A new one.
    ///
    /// **Errors**: unshare(2), for instance at the limit `user.max_net_namespaces`.
    pub fn new(inside: Inside, name: &str) -> Result<Self, LabError> {
        let act = || format!("make a network for host {name}");
        let network = in_a_thread(name, || {
            unshare(CloneFlags::CLONE_NEWNET)?;
            File::open("/proc/thread-self/ns/net")
        })
        .map_err(LabError::network(act()))?
        .map_err(LabError::network(act()))?;
        let host = Self { inside, name: name.to_owned(), network };
        host.netlink(|netlink| {
            let loopback = netlink.index("lo")?;
            netlink.up(loopback)
        })?;
        Ok(host)
    }

    /// The host from which a lab within a lab was started: nothing of the machine's own.
    pub(crate) fn around(inside: Inside, name: &str) -> Option<Self> {
        let network = inside.around()?.try_clone().ok()?;
        Some(Self { inside, name: name.to_owned(), network })
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Does something in it, in a thread that ends with it. Sockets that are opened there stay there.
    ///
    /// **Errors**: setns(2). **Panics**: when `act` does.
    pub fn run<T: Send>(&self, act: impl FnOnce() -> T + Send) -> Result<T, LabError> {
        let went = in_a_thread(&self.name, || setns(&self.network, CloneFlags::CLONE_NEWNET).map(|()| act()));
        let at = format!("enter host {}", self.name);
        went.map_err(LabError::network(at.clone()))?.map_err(LabError::network(at))
    }

    /// Changes its network.
    pub fn netlink<T: Send>(
        &self,
        change: impl FnOnce(&mut Netlink) -> Result<T, LabError> + Send,
    ) -> Result<T, LabError> {
        let inside = self.inside;
        self.run(move || change(&mut Netlink::open(inside)?))?
    }

    /// Starts a command in it, without what tells the lab's own processes what they are.
    ///
    /// **Errors**: those of [`Command::spawn`]. **Caution**: a command that asked for `PR_SET_PDEATHSIG` would end with the
    /// thread that started it, which ends here.
    pub fn spawn(&self, command: &mut Command) -> Result<Child, LabError> {
        let act = format!("run {}", command.get_program().to_string_lossy());
        // Signals that the lab waits for are blocked in all its threads, and a command would begin with them blocked.
        self.run(|| unblocked(plain(command)).spawn())?.map_err(LabError::command(act))
    }

    /// Sets a parameter of the kernel in it, such as `net.ipv4.ip_forward`.
    ///
    /// **Errors**: of open(2) and write(2): not there, or not to be set in a namespace.
    pub fn set_parameter(&self, name: &str, value: &str) -> Result<(), LabError> {
        self.run(|| put(parameter(name), value))?
            .map_err(LabError::network(format!("set {name} in host {}", self.name)))
    }
}

impl Host {
    /// Lays a cable to it from the network that this thread is in, with these addresses here and there. What the host sends to
    /// anywhere else goes to the first address here of each version of IP.
    ///
    /// **Errors**: what the kernel refuses; a second cable to a host of the same name.
    pub fn lay_cable(&self, here: &[Prefix], there: &[Prefix]) -> Result<(), LabError> {
        /// The end at the host.
        const WIRE: &str = "wire";
        let ours = format!("to-{}", self.name);
        let mut netlink = Netlink::open(self.inside)?;
        let (network, address) = (self.as_fd(), NEIGHBOUR);
        netlink.add_cable(Cable { here: &ours, there: WIRE, network, address, mtu: 1_500 })?;
        let give = |netlink: &mut Netlink, name: &str, addresses: &[Prefix]| {
            let index = netlink.index(name)?;
            netlink.disable_neighbour_requests(index)?;
            netlink.up(index)?;
            addresses.iter().try_for_each(|address| netlink.add_address(index, *address))
        };
        self.netlink(|netlink| give(netlink, WIRE, there))?;
        give(&mut netlink, &ours, here)?;
        let (v6, v4): (Vec<&Prefix>, Vec<&Prefix>) = here.iter().partition(|prefix| prefix.0.is_ipv6());
        self.netlink(|netlink| {
            for gateway in [v4.first(), v6.first()].into_iter().flatten() {
                let all: IpAddr = if gateway.0.is_ipv6() {
                    Ipv6Addr::UNSPECIFIED.into()
                } else {
                    Ipv4Addr::UNSPECIFIED.into()
                };
                netlink.add_route(Prefix(all, 0), Way::Via(gateway.0), None)?;
            }
            Ok(())
        })
    }

    /// Returns the value of a kernel parameter in it.
    ///
    /// **Errors**: of open(2) and read(2): not there.
    pub fn parameter(&self, name: &str) -> Result<String, LabError> {
        let read = self.run(|| std::fs::read_to_string(parameter(name)))?;
        let text = read.map_err(LabError::network(format!("read {name} in host {}", self.name)))?;
        Ok(text.trim().to_owned())
    }
}

impl AsFd for Host {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.network.as_fd()
    }
}

/// Does something in a separate thread and waits for it.
///
/// **Errors**: no thread. **Panics**: when `act` does.
pub(crate) fn in_a_thread<T: Send>(name: &str, act: impl FnOnce() -> T + Send) -> io::Result<T> {
    std::thread::scope(|scope| {
        let thread = std::thread::Builder::new().name(name.to_owned()).spawn_scoped(scope, act)?;
        match thread.join() {
            Ok(done) => Ok(done),
            Err(panic) => std::panic::resume_unwind(panic),
        }
    })
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use nix::sys::signal::SigSet;

    use super::*;
    use crate::testing::in_a_network;

    #[test]
    fn hosts_have_ports_of_their_own() {
        in_a_network("hosts_have_ports_of_their_own", |inside| {
            let (one, other) = (Host::new(inside, "one").unwrap(), Host::new(inside, "other").unwrap());
            let listen =
                || TcpListener::bind((Ipv4Addr::LOCALHOST, 443)).map(drop).map_err(|error| error.kind());
            let held = one.run(|| TcpListener::bind((Ipv4Addr::LOCALHOST, 443)).unwrap()).unwrap();
            assert_eq!(one.run(listen).unwrap(), Err(io::ErrorKind::AddrInUse));
            assert_eq!(other.run(listen).unwrap(), Ok(()));
            drop(held);
        });
    }

    #[test]
    fn a_command_gets_the_signals_that_the_lab_waits_for() {
        in_a_network("a_command_gets_the_signals_that_the_lab_waits_for", |inside| {
            let host = Host::new(inside, "one").unwrap();
            SigSet::all().thread_block().unwrap();
            let mut command = Command::new("cat");
            let child = host.spawn(command.arg("/proc/self/status").stdout(std::process::Stdio::piped()));
            let output = child.unwrap().wait_with_output().unwrap().stdout;
            let output = String::from_utf8(output).unwrap();
            assert!(output.contains("\nSigBlk:\t0000000000000000\n"), "{output}");
        });
    }

    #[test]
    fn parameters_are_the_hosts_own() {
        in_a_network("parameters_are_the_hosts_own", |inside| {
            let (one, other) = (Host::new(inside, "one").unwrap(), Host::new(inside, "other").unwrap());
            one.set_parameter("net.ipv4.ip_forward", "1").unwrap();
            let read = || std::fs::read_to_string("/proc/sys/net/ipv4/ip_forward").unwrap();
            assert_eq!((one.run(read).unwrap().trim(), other.run(read).unwrap().trim()), ("1", "0"));
            let error = one.set_parameter("net.ipv4.no_such", "1").unwrap_err().to_string();
            assert!(error.starts_with("set net.ipv4.no_such in host one: "), "{error}");
        });
    }
}
