//! Description of a network: hosts, links between them, and the programs on each host. In: options, or a file in TOML. Out: a [`Plan`],
//! or everything that is wrong with it.

use std::collections::BTreeMap;
use std::time::Duration;

use handfast_text::foreign::without_values;
use serde::Deserialize;

use crate::emulate::Shape;
use crate::error::LabError;

mod values;

/// The largest packet where nothing else is said: Ethernet's.
const USUAL_MTU: u32 = 1500;
/// Hosts and links of one lab. Far above any use, and below what a kernel lets one user have.
const MAX_ITEMS: usize = 64;

/// A network, and what runs in it.
#[derive(Clone, Debug, PartialEq)]
pub struct Plan {
    /// Names of the hosts.
    pub hosts: Vec<String>,
    /// Links between them.
    pub links: Vec<Link>,
    /// Index of the host that runs the command.
    pub client: usize,
    /// Other programs, and their hosts.
    pub servers: Vec<Server>,
    /// Seed of the random numbers.
    pub seed: Option<u64>,
}

/// A link between two hosts.
#[derive(Clone, Debug, PartialEq)]
pub struct Link {
    /// Numbers of the hosts.
    pub ends: [usize; 2],
    /// Effects on packets from the first to the second, and back.
    pub shapes: [Shape; 2],
    /// The largest packet, in bytes.
    pub mtu: u32,
}

/// A command that runs as long as the lab does.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Server {
    /// Number of the host.
    pub host: usize,
    /// The command and its words.
    pub words: Vec<String>,
    /// The TCP port on which it is waited for; `None` for the first one on which any process on this host listens.
    pub port: Option<u16>,
}

/// Effects of a link, as they were written; the same words on the command line and in a file.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LinkWords {
    /// Time there and back.
    pub rtt: Option<String>,
    /// Variation of each direction.
    pub jitter: Option<String>,
    /// Share of packets lost, in each direction.
    pub loss: Option<String>,
    /// Bits a second, in each direction.
    pub rate: Option<String>,
    /// Share of packets held back, in each direction.
    pub reorder: Option<String>,
    /// Bound of the queue where there is a rate.
    pub queue: Option<String>,
    /// The largest packet.
    pub mtu: Option<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    seed: Option<u64>,
    client: Option<String>,
    #[serde(default)]
    link: Vec<FileLink>,
    #[serde(default)]
    server: Vec<FileServer>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct FileLink {
    between: [String; 2],
    rtt: Option<String>,
    jitter: Option<String>,
    loss: Option<String>,
    rate: Option<String>,
    reorder: Option<String>,
    queue: Option<String>,
    mtu: Option<u32>,
    /// The way back, where it differs; `delay` instead of `rtt`.
    back: Option<Back>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Back {
    delay: Option<String>,
    jitter: Option<String>,
    loss: Option<String>,
    rate: Option<String>,
    reorder: Option<String>,
    queue: Option<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct FileServer {
    host: String,
    run: String,
    port: Option<u16>,
}

impl Plan {
    /// Two hosts, `client` and `server`, and one link.
    ///
    /// **Errors**: [`LabError::Wrong`] with every value that is not one.
    pub fn of_one_link(
        words: &LinkWords,
        server: Option<(Vec<String>, Option<u16>)>,
        seed: Option<u64>,
    ) -> Result<Self, LabError> {
        let mut problems = Vec::new();
        let link = link(words, [0, 1], &|key| format!("--{key}"), &mut problems);
        let servers = server.map(|(words, port)| Server { host: 1, words, port });
        let plan = Self {
            hosts: vec!["client".to_owned(), "server".to_owned()],
            links: vec![link],
            client: 0,
            servers: servers.into_iter().collect(),
            seed,
        };
        plan.unless(problems)
    }

    /// Reads a plan from the text of a file.
    ///
    /// **Errors**: [`LabError::Wrong`] with everything that is wrong with it, and where.
    pub fn of_file(name: &str, text: &str) -> Result<Self, LabError> {
        let file: File = toml::from_str(text).map_err(|error| {
            // The error's own text has the line, which may be that of any file.
            let at = error.span().map_or(0, |span| span.start);
            let line = text.get(..at).map_or(1, |before| before.matches('\n').count() + 1);
            LabError::Wrong(vec![format!("{name}: line {line}: {}", without_values(&error.message()))])
        })?;
        let mut problems = Vec::new();
        let mut hosts: Vec<String> = Vec::new();
        let mut links = Vec::new();
        for (number, link) in file.link.into_iter().enumerate() {
            let at = format!("{name}: link {} ({} to {})", number + 1, link.between[0], link.between[1]);
            let ends = link.between.each_ref().map(|host| place(&mut hosts, host));
            if ends[0] == ends[1] {
                problems.push(format!("{at}: both ends are the same host; a link needs two"));
            }
            links.push(link_of_file(link, ends, &at, &mut problems));
        }
        if links.is_empty() {
            problems.push(format!("{name}: no link; hint: [[link]] with between = [\"client\", \"server\"]"));
        }
        problems.extend(
            hosts.iter().filter(|host| !is_name(host)).map(|host| {
                format!("{name}: `{host}` is no name of a host; expected letters, digits, - and .")
            }),
        );
        if hosts.len() > MAX_ITEMS || links.len() > MAX_ITEMS {
            problems.push(format!("{name}: more than {MAX_ITEMS} hosts or links"));
        }
        let mut find = |host: &str, key: &str| {
            let found = hosts.iter().position(|known| known == host);
            if found.is_none() {
                problems.push(format!("{name}: {key} = \"{host}\": no link has this host"));
            }
            found.unwrap_or(0)
        };
        let client = file.client.map_or(0, |client| find(&client, "client"));
        let servers = file.server.into_iter().map(|server| Server {
            host: find(&server.host, "host"),
            words: shell(&server.run),
            port: server.port,
        });
        let servers = servers.collect();
        let plan = Self { hosts, links, client, servers, seed: file.seed };
        let unreached = plan.unreached();
        problems
            .extend(unreached.iter().map(|host| format!("{name}: no links lead from the client to {host}")));
        plan.unless(problems)
    }

    fn unless(self, problems: Vec<String>) -> Result<Self, LabError> {
        if problems.is_empty() { Ok(self) } else { Err(LabError::Wrong(problems)) }
    }

    /// From a host to every other: through which link (and end of it) first; by the fewest links.
    pub fn ways(&self, from: usize) -> BTreeMap<usize, (usize, usize)> {
        let mut ways = BTreeMap::new();
        let mut reached = vec![(from, None)];
        let mut next = 0;
        while let Some((host, first)) = reached.get(next).copied() {
            next += 1;
            for (number, link) in self.links.iter().enumerate() {
                for end in 0..2 {
                    let to = link.ends[1 - end];
                    if link.ends[end] == host && to != from && !ways.contains_key(&to) {
                        let first = first.unwrap_or((number, end));
                        ways.insert(to, first);
                        reached.push((to, Some(first)));
                    }
                }
            }
        }
        ways
    }

    fn unreached(&self) -> Vec<&str> {
        let ways = self.ways(self.client);
        let is_unreached =
            |(number, _): &(usize, &String)| *number != self.client && !ways.contains_key(number);
        self.hosts.iter().enumerate().filter(is_unreached).map(|(_, host)| host.as_str()).collect()
    }
}

/// A command that was given as one text is the shell's to read; one that has words already is not.
pub fn shell(text: &str) -> Vec<String> {
    if text.contains(char::is_whitespace) {
        vec!["sh".to_owned(), "-c".to_owned(), format!("exec {text}")]
    } else {
        vec![text.to_owned()]
    }
}

fn is_name(host: &str) -> bool {
    let letter = |letter: char| letter.is_ascii_alphanumeric() || matches!(letter, '-' | '.');
    !host.is_empty() && host.len() <= 60 && host.chars().all(letter)
}

fn place(hosts: &mut Vec<String>, host: &str) -> usize {
    hosts.iter().position(|known| known == host).unwrap_or_else(|| {
        hosts.push(host.to_owned());
        hosts.len() - 1
    })
}

fn link(
    words: &LinkWords,
    ends: [usize; 2],
    name: &dyn Fn(&str) -> String,
    problems: &mut Vec<String>,
) -> Link {
    let mut read = values::Reader { name, problems };
    let rtt = read.duration("rtt", words.rtt.as_deref());
    let rate = read.rate("rate", words.rate.as_deref());
    let mut shape = Shape {
        delay: rtt / 2,
        jitter: read.duration("jitter", words.jitter.as_deref()),
        loss: read.share("loss", words.loss.as_deref()),
        reorder: read.share("reorder", words.reorder.as_deref()),
        reorder_by: Duration::ZERO,
        rate,
        queue: read.queue("queue", words.queue.as_deref()),
    };
    shape.reorder_by = held_back(&shape);
    if words.queue.is_some() && rate.is_none() {
        let (queue, rate) = (name("queue"), name("rate"));
        problems.push(format!("{queue} needs {rate}: without a rate, nothing waits"));
    }
    let mtu = values::Reader { name, problems }.mtu("mtu", words.mtu.as_deref());
    Link { ends, shapes: [shape; 2], mtu: mtu.unwrap_or(USUAL_MTU) }
}

/// Time for which a packet is held back: a quarter of the way, and at least a millisecond.
fn held_back(shape: &Shape) -> Duration {
    (shape.delay / 4).max(Duration::from_millis(1))
}

fn link_of_file(given: FileLink, ends: [usize; 2], at: &str, problems: &mut Vec<String>) -> Link {
    let FileLink { rtt, jitter, loss, rate, reorder, queue, mtu, back, .. } = given;
    let words = LinkWords { rtt, jitter, loss, rate, reorder, queue, mtu: mtu.map(|mtu| mtu.to_string()) };
    let mut link = link(&words, ends, &|key| format!("{at}: {key}"), problems);
    if let Some(back) = back {
        let name = |key: &str| format!("{at}: back.{key}");
        let mut read = values::Reader { name: &name, problems };
        let shape = &mut link.shapes[1];
        if back.delay.is_some() {
            shape.delay = read.duration("delay", back.delay.as_deref());
            shape.reorder_by = held_back(shape);
        }
        if back.jitter.is_some() {
            shape.jitter = read.duration("jitter", back.jitter.as_deref());
        }
        if back.loss.is_some() {
            shape.loss = read.share("loss", back.loss.as_deref());
        }
        if back.rate.is_some() {
            shape.rate = read.rate("rate", back.rate.as_deref());
        }
        if back.reorder.is_some() {
            shape.reorder = read.share("reorder", back.reorder.as_deref());
        }
        if back.queue.is_some() {
            shape.queue = read.queue("queue", back.queue.as_deref());
        }
    }
    link
}

#[cfg(test)]
mod tests;
