//! Trials: faults of peers, the network, the machine and the operator, played against a TLS proxy, and what has to hold all the same.
//!
//! In: cases, modes and programs: Handfast in every mode, and other TLS proxies in those that they have. Out: a [`Report`], as data,
//! text, or a table that compares the programs. Each experiment has two hosts: network namespaces of `handfast_lab`. The real program
//! runs in one, peers under control run in the other. The path between them drops, resets and answers by ICMP on request. A case is
//! judged only after its fault was shown to have happened.
//!
//! | what | file |
//! |---|---|
//! | which peers use TLS | `mode` |
//! | the table: every case, its configuration, and how it is played | `cases`, `case`, `setup` |
//! | how each program is configured, started, reloaded and stopped | `subject`, `subjects` |
//! | the scene | `stage`, `addresses` |
//! | what every experiment ends with | `judge` |
//! | the program under test, and what the kernel reports of its processes | `program`, `processes` |
//! | a bound on all its memory | `memory_group` |
//! | both ends of its connections | `peer`, `backend`, `certificates` |
//! | HTTP as both ends speak it | `http` |
//! | an end that writes what no library would | `forger` |
//! | the DNS server | `resolver` |
//! | clients that come and go all the while | `load` |
//! | all experiments, several at a time | `run` |
//! | what is not tried, and why | `absent` |
//! | the results, as data and as text | `report`, `text` |
//! | the programs side by side | `table`, `page` |
#![forbid(unsafe_code)]

mod absent;
mod addresses;
mod backend;
mod case;
mod cases;
mod certificates;
mod forge;
mod forger;
mod http;
mod judge;
mod load;
mod memory_group;
mod mode;
mod page;
mod program;
mod report;
mod resolver;
mod run;
mod setup;
mod stage;
mod subject;
mod subjects;
mod table;
mod text;
mod error;

pub use mode::Mode;
pub use page::page;
pub use program::put_file;
pub use report::{Absent, Experiment, Figures, Outcome, ProgramUnderTest, Report, SCHEMA, Summary};
pub use run::{RunSettings, known, run};
pub use subject::Subject;
pub use subjects::{HANDFAST, SUBJECTS, named};
pub use table::markdown;
pub use text::{explained, list, text, word};
