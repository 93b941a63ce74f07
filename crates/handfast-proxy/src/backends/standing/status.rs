//! What metrics and the status page report of a backend's standing.

use super::{Availability, Standing};
use handfast_observe::metrics::{BackendSnapshot, BackendState, BackendStatus};

impl BackendStatus for Standing {
    fn add_to(&self, to: &mut BackendSnapshot) {
        to.failures_in_a_row = self.failures();
        to.last_failure = self.cause().map(|cause| cause.name());
        to.check = self.checked();
        let operator = self.taken_out();
        to.operator = operator.map(|(requested, _)| requested.name());
        to.operator_since = operator.map(|(_, since)| since);
        let outage = self.outage();
        to.down_since = outage.map(|outage| outage.since);
        to.pause_left_seconds = outage.and_then(|outage| outage.pause_left).map(|left| left.as_secs_f64());
        to.state = match (outage, self.availability()) {
            (Some(_), Availability::Out) => match to.operator {
                Some("drain") => BackendState::Drained,
                Some(_) => BackendState::TakenDown,
                None => BackendState::CheckFailed,
            },
            (None, _) => BackendState::Up,
            (Some(_), Availability::OnTrial) => BackendState::OnTrial,
            (Some(_), _) => BackendState::Down,
        };
    }
}
