//! All connections to one target: which are made, in which order.
//!
//! In: [`ProbeSettings`]. Out: a [`Report`]. Full and resumed handshakes alternate, so that changes of the network affect both kinds equally.

use std::net::SocketAddr;
use std::time::{Duration, SystemTime};

use handfast_leg::blocking::Failed;
use handfast_net::sys::stamps;
use handfast_tls::client::{Client, ClientSettings, Verification};

use crate::attempt::{Attempt, AttemptSettings, attempt};
use crate::error::{ProbeError, Step};
use crate::http;
use crate::keep_alive::{self, KeepAlive};
pub use crate::measured::ProbeSettings;
use crate::measured::{Measured, Other};
use crate::report::Report;
use crate::summary;
use crate::tally::Tally;
use crate::target::{Target, resolve};

/// The progress.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Progress {
    /// Connections that were made.
    pub done: usize,
    /// The planned number.
    pub of: usize,
}

/// Time to wait for tickets before any has come.
const FIRST_TICKET_TIMEOUT: Duration = Duration::from_millis(500);
/// The same after one has come.
const NEXT_TICKET_TIMEOUT: Duration = Duration::from_secs(2);
/// Addresses of a name beyond the first that are measured too.
const MAX_OTHER_ADDRESSES: usize = 7;
/// Connections to each of them.
const EACH_OTHER: usize = 3;

/// Makes all connections, and reports the results.
///
/// **Errors**: every connection failed; the reason of the first one.
///
/// **Cost**: `runs` × 2 connections one after the other, and a few more.
pub fn run(options: &ProbeSettings, progress: &mut dyn FnMut(Progress)) -> Result<Report, ProbeError> {
    let measured = measure(options, progress)?;
    Ok(summary::report(&measured))
}

fn measure(options: &ProbeSettings, progress: &mut dyn FnMut(Progress)) -> Result<Measured, ProbeError> {
    let started = SystemTime::now();
    // Held to the end: while it is open, the kernel stamps all packets.
    let _keeper =
        std::net::UdpSocket::bind("127.0.0.1:0").ok().filter(|keeper| stamps::keep_stamping(keeper).is_ok());
    let target = &options.target;
    let (addresses, lookup) = resolve(target, options.family, options.timeout)?;
    let mut lookups = vec![lookup];
    let mut settings = options.settings.clone();
    if options.sni && settings.server_name.is_none() {
        settings.server_name = target.server_name();
    }
    if target.path.is_some() {
        settings.alpn = vec!["http/1.1".to_owned()];
    }
    let server_name = settings.server_name.clone();
    let host = server_name.clone().unwrap_or_else(|| target.host.clone());
    let request = target.path.as_ref().map(|path| http::request(&authority(target), path));
    let mut survey = Survey {
        options,
        request,
        settings,
        host,
        progress,
        done: 0,
        of: 0,
        failed: Vec::new(),
        tally: Tally::default(),
    };
    survey.of = 1 + options.runs.max(1) * if options.early_data && survey.request.is_some() { 3 } else { 2 };
    survey.of += if options.keep_alive.is_some() { 2 } else { 0 };
    let (client, address, look, distrust) = survey.first(&addresses)?;
    let mut others: Vec<SocketAddr> = addresses.into_iter().filter(|other| *other != address).collect();
    others.truncate(MAX_OTHER_ADDRESSES);
    survey.of += others.len() * (EACH_OTHER + 2);
    let mut resumed = Vec::new();
    let mut full = Vec::new();
    let gives = client.tickets() > 0;
    // A server may send its tickets with the first response, or at the end: there is nothing to wait for then.
    let tickets = if look.tickets > 0 { (1, NEXT_TICKET_TIMEOUT) } else { (0, Duration::ZERO) };
    for _ in 0..options.runs.max(1) {
        if let Ok((_, lookup)) = resolve(target, options.family, options.timeout) {
            lookups.push(lookup);
        }
        full.extend(survey.one(&client, address, false, false, tickets));
        if client.tickets() > 0 {
            resumed.extend(survey.one(&client, address, true, false, (0, Duration::ZERO)));
        } else {
            survey.step();
        }
    }
    if full.is_empty() {
        return Err(survey.failed.swap_remove(0));
    }
    let ticket = client.newest_ticket();
    let early = if options.early_data { survey.early(address)? } else { Vec::new() };
    let others = others.into_iter().map(|other| survey.other(&client, address, other, gives)).collect();
    let kept = survey.keep_alive(&client, address);
    let staple = client.staple_bytes();
    let seen = survey.tally.seen();
    let failed = survey.failed;
    let lookups = lookups.iter().map(|lookup| lookup.as_secs_f64() * 1e3).collect();
    let options = options.clone();
    Ok(Measured {
        options,
        started,
        server_name,
        lookups,
        address,
        others,
        first: look,
        full,
        resumed,
        early,
        failed,
        distrust,
        ticket,
        staple,
        kept,
        seen,
    })
}

/// The value of the `Host` header.
fn authority(target: &Target) -> String {
    if target.port != 443 {
        return target.to_string();
    }
    if target.host.contains(':') { format!("[{}]", target.host) } else { target.host.clone() }
}

struct Survey<'a> {
    options: &'a ProbeSettings,
    request: Option<Vec<u8>>,
    settings: ClientSettings,
    host: String,
    progress: &'a mut dyn FnMut(Progress),
    done: usize,
    of: usize,
    failed: Vec<ProbeError>,
    tally: Tally,
}

impl Survey<'_> {
    fn step(&mut self) {
        self.done += 1;
        (self.progress)(Progress { done: self.done.min(self.of), of: self.of });
    }

    fn client(&self, settings: &ClientSettings) -> Result<Client, ProbeError> {
        Ok(Client::new(settings, &self.host).map_err(Failed::session)?)
    }

    fn attempt_settings<'s>(
        &'s self,
        client: &'s Client,
        address: SocketAddr,
        resume: bool,
    ) -> AttemptSettings<'s> {
        AttemptSettings {
            target: &self.options.target,
            address,
            client,
            resume,
            early: false,
            request: self.request.as_deref().map(|request| (request, 1)),
            timeout: self.options.timeout,
            tickets: (0, Duration::ZERO),
            should_inspect: false,
            tally: &self.tally,
        }
    }

    fn one(
        &mut self,
        client: &Client,
        address: SocketAddr,
        resume: bool,
        early: bool,
        tickets: (usize, Duration),
    ) -> Option<Attempt> {
        let made =
            attempt(&AttemptSettings { early, tickets, ..self.attempt_settings(client, address, resume) });
        self.step();
        made.map_err(|error| self.failed.push(error)).ok()
    }

    /// The first connection, to the first address that answers. A refused certificate is reported, and no longer verified.
    fn first(
        &mut self,
        addresses: &[SocketAddr],
    ) -> Result<(Client, SocketAddr, Attempt, Option<String>), ProbeError> {
        let mut first = None;
        for address in addresses {
            match self.connect_first(*address) {
                Ok((client, look, distrust)) => {
                    self.step();
                    return Ok((client, *address, look, distrust));
                }
                Err(error) => {
                    let connect = error.step == Step::Connect;
                    first.get_or_insert(error);
                    // A refused handshake would be refused at each address.
                    if !connect {
                        break;
                    }
                }
            }
        }
        Err(first
            .unwrap_or_else(|| ProbeError::new(Step::Resolve, "resolve", "resolve: there is no address")))
    }

    fn connect_first(
        &mut self,
        address: SocketAddr,
    ) -> Result<(Client, Attempt, Option<String>), ProbeError> {
        let request =
            |survey: &Self| survey.request.clone().map(|request| (request, survey.options.requests.max(1)));
        let request = request(self);
        let request = request.as_ref().map(|(request, times)| (request.as_slice(), *times));
        let try_with = |survey: &Self, client: &Client| {
            let ask = AttemptSettings {
                request,
                tickets: (usize::MAX, FIRST_TICKET_TIMEOUT),
                should_inspect: true,
                ..survey.attempt_settings(client, address, false)
            };
            attempt(&ask)
        };
        let client = self.client(&self.settings)?;
        match try_with(self, &client) {
            Ok(look) => Ok((client, look, None)),
            Err(error) if error.is_certificate => {
                self.settings.verification = Verification::Off;
                let client = self.client(&self.settings)?;
                let look = try_with(self, &client)?;
                let why = error.what.strip_prefix("handshake: ").unwrap_or(&error.what).to_owned();
                Ok((client, look, Some(why)))
            }
            Err(error) => Err(error),
        }
    }

    /// Resumed handshakes with early data; each needs a separate ticket, from a client that sends early data.
    fn early(&mut self, address: SocketAddr) -> Result<Vec<Attempt>, ProbeError> {
        let client = self.client(&ClientSettings { early_data: true, ..self.settings.clone() })?;
        let mut made = Vec::new();
        for _ in 0..self.options.runs.max(1) {
            if client.tickets() == 0 {
                let ask = AttemptSettings {
                    tickets: (1, FIRST_TICKET_TIMEOUT),
                    ..self.attempt_settings(&client, address, false)
                };
                let _ = attempt(&ask).map_err(|error| self.failed.push(error));
            }
            made.extend(self.one(&client, address, true, true, (1, FIRST_TICKET_TIMEOUT)));
        }
        Ok(made)
    }

    /// Measures the time for which a connection is kept, and the number of requests on it.
    fn keep_alive(&mut self, client: &Client, address: SocketAddr) -> Option<KeepAlive> {
        let bound = self.options.keep_alive?;
        let mut kept = KeepAlive::default();
        for find in [keep_alive::idle, keep_alive::requests] {
            let found = find(&self.attempt_settings(client, address, false), bound, &mut kept);
            self.step();
            if let Err(error) = found {
                self.failed.push(error);
                return None;
            }
        }
        Some(kept)
    }

    /// Another address of the name: how long it takes, and whether it takes the first one's tickets.
    fn other(&mut self, client: &Client, first: SocketAddr, address: SocketAddr, gives: bool) -> Other {
        let mut other = Other { address, made: Vec::new(), takes_tickets: None, error: None };
        for _ in 0..EACH_OTHER {
            let made = attempt(&self.attempt_settings(client, address, false));
            self.step();
            match made {
                Ok(made) => other.made.push(made),
                Err(error) => {
                    other.error = Some(error);
                    self.done += EACH_OTHER - 1;
                    break;
                }
            }
        }
        if gives && other.error.is_none() {
            // The newest ticket is used first: one of the first address.
            let fresh = self.one(client, first, false, false, (1, NEXT_TICKET_TIMEOUT));
            if fresh.is_some_and(|fresh| fresh.tickets > 0) {
                let made = self.one(client, address, true, false, (0, Duration::ZERO));
                other.takes_tickets = made.map(|made| made.agreed.resumed == Some(true));
            }
        }
        other
    }
}
