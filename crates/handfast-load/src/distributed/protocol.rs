//! The messages between coordinator and workers, and their subjects.
//!
//! In and out: JSON. Orders go to `hf.<fleet>.c.…`, which only coordinators publish; events and answers to
//! `hf.<fleet>.w.…`, which only workers publish. So two lines of permissions are enough on the server, and a worker's
//! user can neither command nor listen to other workers.
//!
//! | subject | who publishes | what |
//! |---|---|---|
//! | `hf.F.c.all` | coordinator | [`Order::RollCall`] |
//! | `hf.F.c.<worker>` | coordinator | every other [`Order`] |
//! | `hf.F.w.<coordinator>.<run>.<worker>` | worker | [`Event`]; `hello` in place of a run answers a call |
//! | `hf.F.w.inbox.<coordinator>.…` | worker | [`Reply`] |

use std::fs::File;
use std::io::Read;
use std::sync::OnceLock;

use aws_lc_rs::digest::{Context, SHA256};
use bytes::Bytes;
use data_encoding::HEXLOWER;
use handfast_bus::{BusError, check_fleet, printable};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::generator::Share;
use crate::outcome::{Facts, WorkerEnd};
use crate::plan::Plan;
use crate::sample::Interval;
use handfast_report::{ToolError, ToolErrorKind};

/// The version of everything in this file. [`Order::RollCall`] and [`Event::Hello`] stay as they are forever, so that
/// two versions can detect each other.
pub(super) const PROTOCOL: u32 = 1;

/// In place of a run's name, in answers to a call.
pub(super) const HELLO: &str = "hello";

/// The program that a worker or coordinator runs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Identity {
    /// [`PROTOCOL`].
    pub(super) protocol: u32,
    /// The program's version.
    pub(super) version: String,
    /// SHA-256 of the program's file, in hex.
    pub(super) program: String,
}

impl Identity {
    /// Our own. **Cost**: reads the program's file once in the life of the process; blocks.
    ///
    /// **Errors**: a system without `/proc`.
    pub(super) fn own() -> Result<Self, ToolError> {
        static PROGRAM: OnceLock<std::io::Result<String>> = OnceLock::new();
        match PROGRAM.get_or_init(|| hash("/proc/self/exe")) {
            Ok(program) => Ok(Self {
                protocol: PROTOCOL,
                version: env!("CARGO_PKG_VERSION").into(),
                program: program.clone(),
            }),
            Err(error) => Err(ToolError::failed(format!("read our own program /proc/self/exe: {error}"))),
        }
    }

    /// Reason why a worker with `self` cannot work for a coordinator with `expected`; `None`: it can.
    pub(super) fn differs(&self, expected: &Self) -> Option<String> {
        if self.protocol != expected.protocol {
            return Some(format!("it uses protocol {}, this program {}", self.protocol, expected.protocol));
        }
        if self != expected {
            let short = |program: &str| program.chars().take(12).collect::<String>();
            return Some(format!(
                "it runs handfast {} with SHA-256 {}…, this is {} with {}…",
                self.version,
                short(&self.program),
                expected.version,
                short(&expected.program)
            ));
        }
        None
    }
}

fn hash(path: &str) -> std::io::Result<String> {
    let mut file = File::open(path)?;
    let mut context = Context::new(&SHA256);
    let mut block = vec![0; 1 << 16];
    loop {
        let length = file.read(&mut block)?;
        if length == 0 {
            return Ok(HEXLOWER.encode(context.finish().as_ref()));
        }
        context.update(&block[..length]);
    }
}

/// A coordinator.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Caller {
    /// Its own token in subjects.
    pub(super) id: String,
    /// Its name for people.
    #[serde(deserialize_with = "printable")]
    pub(super) name: String,
    /// Its program.
    pub(super) identity: Identity,
}

/// From a coordinator to workers. Moments are on the worker's own monotonic clock.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Order {
    /// A call to all workers. Answered with [`Event::Hello`]; binds no worker.
    RollCall {
        /// The coordinator that calls.
        from: Caller,
    },
    /// You answered, and cannot take part.
    TurnedAway {
        /// Reason of the refusal, or of the end.
        why: ToolError,
    },
    /// Work for me, and for no other coordinator until you have received nothing from me for a lease.
    Enlist {
        /// The coordinator that sends it.
        by: Caller,
    },
    /// A request for the worker's clock.
    Clock,
    /// Prepare a run.
    Prepare {
        /// The coordinator's token.
        by: String,
        /// The run's name.
        run: String,
        /// Plan of the run.
        plan: Box<Plan>,
        /// Your part of it.
        share: Share,
        /// Your lease.
        until_ns: u64,
    },
    /// Begin at that moment.
    Go {
        /// The run's name.
        run: String,
        /// Start of the run.
        start_ns: u64,
    },
    /// Your lease is longer now.
    Lease {
        /// The coordinator's token.
        by: String,
        /// The run's name.
        run: String,
        /// End of the lease.
        until_ns: u64,
    },
    /// Begin no more transactions, and end.
    Stop {
        /// The run's name.
        run: String,
    },
    /// Your final message has arrived.
    Received {
        /// The run's name.
        run: String,
    },
    /// You are free.
    Dismiss {
        /// The coordinator's token.
        by: String,
    },
}

/// A worker's answer to an order that was a request.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Reply {
    /// It will be done.
    Yes,
    /// It will not.
    No(ToolError),
    /// The worker's monotonic clock. **Units**: nanoseconds.
    Clock(u64),
}

/// A worker's answer to a call.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Hello {
    /// Its name for people.
    #[serde(deserialize_with = "printable")]
    pub(super) name: String,
    /// Its program.
    pub(super) identity: Identity,
    /// The coordinator that it works for, when that is not the caller.
    pub(super) busy: Option<String>,
}

/// From a worker to its coordinator.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Event {
    /// I am there.
    Hello(Hello),
    /// A heartbeat.
    Beat,
    /// I am ready to begin.
    Prepared(Facts),
    /// I cannot begin.
    Refused(ToolError),
    /// A second that is over.
    Second(Box<Interval>),
    /// My final message; repeated until [`Order::Received`].
    End {
        /// Totals.
        end: Box<WorkerEnd>,
        /// Reason for an end before the order to end, if there was one.
        cut: Option<String>,
    },
    /// Nothing more will come from me in this run.
    Gone {
        /// Reason of the refusal, or of the end.
        why: String,
    },
}

/// As bytes on the bus.
pub(super) fn encode<T: Serialize>(value: &T) -> Bytes {
    // Our own types, without maps with other keys than text: this cannot fail.
    serde_json::to_vec(value).map(Bytes::from).unwrap_or_default()
}

/// From bytes on the bus; `None` for what is not ours or not of our version.
pub(super) fn decode<T: DeserializeOwned>(bytes: &[u8]) -> Option<T> {
    serde_json::from_slice(bytes).map_err(|error| tracing::debug!(%error, "an unreadable message")).ok()
}

/// The subjects of one fleet.
#[derive(Clone, Debug)]
pub(super) struct Subjects {
    fleet: String,
}

impl Subjects {
    /// Those of the fleet with this name.
    ///
    /// **Errors**: those of [`check_fleet`].
    pub(super) fn new(fleet: &str) -> Result<Self, ToolError> {
        check_fleet(fleet).map_err(of_bus)?;
        Ok(Self { fleet: fleet.to_owned() })
    }

    /// Orders to all workers.
    pub(super) fn all(&self) -> String {
        format!("hf.{}.c.all", self.fleet)
    }

    /// Orders to one worker.
    pub(super) fn orders(&self, worker: &str) -> String {
        format!("hf.{}.c.{worker}", self.fleet)
    }

    /// The events of a worker in a run.
    pub(super) fn events(&self, coordinator: &str, run: &str, worker: &str) -> String {
        format!("hf.{}.w.{coordinator}.{run}.{worker}", self.fleet)
    }

    /// All events for one coordinator.
    pub(super) fn all_events(&self, coordinator: &str) -> String {
        format!("hf.{}.w.{coordinator}.>", self.fleet)
    }

    /// The subjects of answers.
    pub(super) fn inbox(&self, asker: &str) -> String {
        format!("hf.{}.w.inbox.{asker}", self.fleet)
    }

    /// Run and worker out of the subject of an event.
    pub(super) fn run_and_worker(subject: &str) -> Option<(&str, &str)> {
        let mut tokens = subject.split('.').skip(4);
        Some((tokens.next()?, tokens.next()?))
    }
}

/// The error of a bus as the load tester reports it, here and to other machines.
#[expect(clippy::needless_pass_by_value, reason = "the argument of map_err")]
pub(super) fn of_bus(error: BusError) -> ToolError {
    let kind = if error.is_wrong_use() { ToolErrorKind::WrongUse } else { ToolErrorKind::Failed };
    ToolError { what: error.what(), hint: error.hint(), kind }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_plan_and_a_second_survive_the_bus() {
        let plan = Plan::default();
        let order = Order::Prepare {
            by: "c".into(),
            run: "r".into(),
            plan: Box::new(plan.clone()),
            share: Share { index: 1, of: 3 },
            until_ns: u64::MAX,
        };
        let Some(Order::Prepare { plan: read, until_ns, .. }) = decode(&encode(&order)) else {
            panic!("not an order to prepare");
        };
        assert_eq!((*read, until_ns), (plan, u64::MAX));
        let mut interval = Interval { second: 7, ..Interval::default() };
        interval.series.entry(crate::sample::Series::Total).or_default().record_nanos(1_234_567);
        let Some(Event::Second(read)) = decode(&encode(&Event::Second(Box::new(interval.clone())))) else {
            panic!("not a second");
        };
        assert_eq!(read.series[&crate::sample::Series::Total].count(), 1);
        assert_eq!(read.second, 7);
    }

    #[test]
    fn a_hello_of_another_version_can_be_read() {
        let hello = r#"{"hello":{"name":"w","identity":{"protocol":9,"version":"7","program":"ab","new":1},
            "busy":null,"mood":"good"}}"#;
        let Some(Event::Hello(hello)) = decode(hello.as_bytes()) else { panic!("not a hello") };
        let own = Identity { protocol: PROTOCOL, version: "7".into(), program: "ab".into() };
        assert!(hello.identity.differs(&own).unwrap().contains("protocol 9"));
        assert_eq!(own.differs(&own), None);
        let other = Identity { program: "cd".into(), ..own.clone() };
        assert!(other.differs(&own).unwrap().contains("SHA-256 cd"));
    }

    #[test]
    fn a_name_cannot_command_a_terminal() {
        let hello =
            r#"{"name":"\u001b[2Jw","identity":{"protocol":1,"version":"1","program":""},"busy":null}"#;
        assert_eq!(serde_json::from_str::<Hello>(hello).expect("a hello").name, "?[2Jw");
    }

    #[test]
    fn names_cannot_leave_their_place_in_a_subject() {
        assert_eq!(handfast_bus::token("a.b c>*"), "a-b-c--");
        assert!(Subjects::new("a.b").is_err() && Subjects::new("").is_err() && Subjects::new(">").is_err());
        let subjects = Subjects::new("lab_1").unwrap();
        assert_eq!(Subjects::run_and_worker(&subjects.events("c", "r", "w")), Some(("r", "w")));
        assert_eq!(Subjects::run_and_worker("hf.x"), None);
    }
}
