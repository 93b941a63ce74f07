//! HTTP GET over hyper's client connections.

use std::rc::Rc;

use handfast_net::clock::Moment;

use crate::bench::Bench;
use crate::standing::Arrivals;
use crate::trouble::{Step, Trouble};

/// One GET on a connection of its own, to see whether it works.
pub(crate) async fn rehearse(_bench: &Rc<Bench>) -> Result<(), Trouble> {
    Err(Trouble::new(Step::Exchange, "internal", "not built yet"))
}

/// A connection with the plan's number of requests on it.
pub(crate) async fn transaction(_bench: &Rc<Bench>, _intended: Moment) -> Result<(), Trouble> {
    Err(Trouble::new(Step::Exchange, "internal", "not built yet"))
}

/// A kept connection: one request after the other until the run is over.
pub(crate) async fn kept(_bench: Rc<Bench>, _arrivals: Rc<Arrivals>) {}
