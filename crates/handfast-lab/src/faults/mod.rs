//! Faults against the proxy: what peers, the network, the machine and its operator can do to the shipped program, each in every
//! mode in which it makes sense, and what has to hold all the same.
//!
//! In: which cases and modes, and a program. Out: a [`Report`]. Each experiment has two hosts: network namespaces of
//! the laboratory. The real program runs in one, peers under control run in the other. The path between them drops, resets
//! and answers by ICMP on request. A case is judged only after its fault was shown to have happened.
//!
//! | what | file |
//! |---|---|
//! | which peers use TLS | `mode` |
//! | the table: every case, and how it is played | `cases`, `case` |
//! | the scene, and what every experiment ends with | `stage` |
//! | the program under test, and what the kernel knows of it | `program` |
//! | a bound on all its memory | `memory_group` |
//! | both ends of its connections | `peer`, `backend`, `certificates` |
//! | HTTP as both ends speak it | `http` |
//! | an end that writes what no library would | `forger` |
//! | who answers questions about names | `resolver` |
//! | clients that come and go all the while | `load` |
//! | all experiments, several at a time | `run` |
//! | what is not tried, and why | `absent` |
//! | what was found, as data and as text | `report`, `text` |

mod absent;
mod backend;
mod case;
mod cases;
mod certificates;
mod forger;
mod http;
mod load;
mod memory_group;
mod mode;
mod peer;
mod program;
mod report;
mod resolver;
mod run;
mod stage;
mod text;
mod trouble;

pub use mode::Mode;
pub use report::{Absent, Experiment, Figures, Outcome, Report, SCHEMA, Summary};
pub use run::{Wanted, known, run};
pub use text::{explained, list, text, word};
