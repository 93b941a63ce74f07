//! The socket matrix: what the running kernel says, call by call, when a connection breaks, measured.
//!
//! In: which rows, how often. Out: a [`Matrix`], as data, text or a page. Each experiment has two separate hosts that are
//! network namespaces of the laboratory, real TCP at both ends, and a path between them that drops, resets, or answers by ICMP on
//! request: no firewall and no other program is needed. A case is made consistently or not at all: calls are made when
//! everything that was on its way has arrived, and each event is proven by what was seen on the path.
//!
//! | what | file |
//! |---|---|
//! | the rows | `rows` |
//! | two hosts and the path between them | `place`, `path`, `packet`, `peer`, `diagnosis` |
//! | how sockets get where the event meets them | `stage` |
//! | one experiment | `cells`, `probe` |
//! | what Handfast tells its user, held against what happened | `causes` |
//! | all of them | `matrix` |
//! | what was found, as data, and for people | `outcome`, `text` |

mod causes;
mod cells;
mod diagnosis;
mod failure;
mod matrix;
mod outcome;
mod packet;
mod path;
mod peer;
pub(crate) mod addresses;
mod place;
mod probe;
mod rows;
mod stage;
mod text;

pub use addresses::HERE;
pub use causes::Difference;
pub use failure::Failure;
pub use matrix::{Matrix, MatrixSettings, SCHEMA, Summary, known_rows, measure};
pub use outcome::{Call, Cell, Counted, Noticed, Observation, Operation, Outcome, RowResult};
pub use path::{Path, Rule, Seen};
pub use place::{Place, Repair};
pub use text::{list, page, text, version};
