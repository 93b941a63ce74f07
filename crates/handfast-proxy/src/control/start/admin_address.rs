//! The admin address: bound at a start, or waited for until the previous process stops.

use std::io;
use std::rc::Rc;
use std::time::{Duration, Instant};

use crate::control::admin_state::AdminState;
use crate::control::error::Error;
use handfast_admin::{self, AdminListener, Control as _, Neighbour, RequiredToken};
use handfast_config::model::{Address, Config};
use handfast_process::error::Error as ProcessError;
use handfast_process::listeners::PassedSocket;
use handfast_process::privileges::ServiceUser;

/// Pauses before the admin address is tried again: if it was just given up, and otherwise.
const BIND_RETRY_INTERVALS: (Duration, Duration) = (Duration::from_millis(10), Duration::from_millis(250));

/// A Handfast that just received a stop request, and has no connections, has ended within this time.
const IDLE_STOP_TIMEOUT: Duration = Duration::from_secs(1);

/// The process before this one closes its listeners two seconds after it gave up the admin address, if it is not too busy.
const PREDECESSOR_CLOSE_TIMEOUT: Duration = Duration::from_secs(4);

#[derive(Debug)]
pub(super) enum AdminAddress {
    Off,
    Bound(AdminListener),
    /// Another Handfast has it, which this one is to follow.
    Taken(Address, Neighbour),
}

impl AdminAddress {
    /// Binds it, if there is one; `given` is a socket that listens there already. Waits for a Handfast that is just ending.
    ///
    /// **Errors**: it cannot be had, and the reason is not another Handfast.
    #[expect(clippy::disallowed_methods, reason = "nothing is served yet")]
    pub(super) fn bind(
        config: &Config,
        given: Option<PassedSocket>,
        user: &ServiceUser,
    ) -> Result<Self, Error> {
        let Some(address) = &config.admin else { return Ok(Self::Off) };
        if let Some(given) = given {
            let listener = AdminListener::given(given.socket, given.origin);
            return listener.map(Self::Bound).map_err(|source| failed(address, source));
        }
        let until = Instant::now() + IDLE_STOP_TIMEOUT;
        loop {
            let source = match user.bind(address, || handfast_admin::bind(address)) {
                Ok(listener) => return Ok(Self::Bound(listener)),
                Err(source) => source,
            };
            if source.kind() != io::ErrorKind::AddrInUse {
                return Err(failed(address, source));
            }
            if let Some(neighbour) = handfast_admin::neighbour(address) {
                return Ok(Self::Taken(address.clone(), neighbour));
            }
            if Instant::now() >= until {
                return Err(Error::AdminTaken { address: address.clone(), source });
            }
            std::thread::sleep(BIND_RETRY_INTERVALS.0);
        }
    }

    /// Returns the address if the socket was passed to this process.
    pub(super) fn given(&self) -> Option<Address> {
        match self {
            Self::Bound(listener) if listener.is_given() => listener.address().ok(),
            _ => None,
        }
    }

    /// Returns true if another Handfast has it, which shares its other addresses with this one.
    pub(super) fn is_taken(&self) -> bool {
        matches!(self, Self::Taken(..))
    }

    /// Serves on it in a separate task, once it is free. **Errors**: a socket that does not know its own address.
    pub(super) fn open(self, threads: usize, shared: &Rc<AdminState>) -> io::Result<()> {
        match self {
            Self::Off => {}
            Self::Bound(listener) => {
                log_address(&listener)?;
                drop(tokio::task::spawn_local(serve(listener, Rc::clone(shared))));
            }
            Self::Taken(address, neighbour) => {
                log_neighbour(&address, neighbour);
                drop(tokio::task::spawn_local(wait_for(address, threads, Rc::clone(shared))));
            }
        }
        Ok(())
    }
}

fn failed(address: &Address, source: io::Error) -> Error {
    ProcessError::Listen { address: address.clone(), owner: "admin".into(), source }.into()
}

fn log_address(listener: &AdminListener) -> io::Result<()> {
    let address = listener.address()?;
    tracing::info!("admin on {address}");
    Ok(())
}

/// Logs that another process has the same addresses. A restart without a gap begins so; or the operator has overlooked the first one.
fn log_neighbour(address: &Address, Neighbour { process }: Neighbour) {
    tracing::warn!(
        "process {process} is a Handfast that has the admin address {address}: this one shares the listening addresses \
         with it, and gets the admin address once it is stopped (kill -TERM {process})"
    );
}

async fn serve(mut listener: AdminListener, shared: Rc<AdminState>) {
    loop {
        let Ok(address) = listener.address() else { return };
        // Without a second descriptor a process that takes over binds the address again.
        shared.set_admin_listener(listener.own_file(), listener.socket().ok());
        let given = Rc::clone(&shared.admin_given);
        if let Err(error) = handfast_admin::serve(listener, Rc::clone(&shared) as _, given).await {
            tracing::error!("admin: {error}");
            return;
        }
        tracing::error!("admin: the file of its socket {address} was removed or replaced; it is made again");
        listener = bound_again(&address).await;
    }
}

async fn bound_again(address: &Address) -> AdminListener {
    let mut last_logged = None;
    loop {
        match handfast_admin::bind(address) {
            Ok(listener) => return listener,
            Err(error) => log_once(&mut last_logged, address, error),
        }
        tokio::time::sleep(BIND_RETRY_INTERVALS.1).await;
    }
}

fn log_once(last_logged: &mut Option<io::ErrorKind>, address: &Address, error: io::Error) {
    if last_logged.replace(error.kind()) != Some(error.kind()) {
        tracing::error!("{}; retrying until it works", failed(address, error));
    }
}

/// Asks for the admin address until this process has it. Nothing else waits for that.
async fn wait_for(address: Address, threads: usize, shared: Rc<AdminState>) {
    let mut last_logged = None;
    loop {
        match handfast_admin::bind(&address) {
            Ok(listener) => {
                if log_address(&listener).is_ok() {
                    let alone = async {
                        tokio::time::sleep(PREDECESSOR_CLOSE_TIMEOUT).await;
                        shared.report_predecessor_closed();
                    };
                    tokio::join!(serve(listener, Rc::clone(&shared)), alone);
                    return;
                }
            }
            Err(error) if error.kind() == io::ErrorKind::AddrInUse => {}
            Err(error) => log_once(&mut last_logged, &address, error),
        }
        let (neighbour, token) = (address.clone(), shared.required_token());
        let given = tokio::task::spawn_blocking(move || {
            let token = match &token {
                RequiredToken::Token(token) => Some(token.as_str()),
                RequiredToken::None | RequiredToken::Unknown => None,
            };
            handfast_admin::request_address(&neighbour, threads, token)
        });
        let pause =
            if matches!(given.await, Ok(Ok(true))) { BIND_RETRY_INTERVALS.0 } else { BIND_RETRY_INTERVALS.1 };
        tokio::time::sleep(pause).await;
    }
}
