//! How long a relay may be silent, and how old it may become.
//!
//! In: a relay that waits. Out: the earliest of its limits, and what it means when that has passed.

use handfast_leg::{Leg, Socket};
use handfast_net::clock::Moment;
use handfast_text::duration;

use super::Relay;
use crate::path::connection::Connection;
use handfast_leg::runtime::Runtime;
use handfast_observe::cause::Cause;
use handfast_observe::reason::{CloseReason, Side, Step};

impl Relay {
    /// The earliest of the limits on silence and age, and what it is called.
    pub(super) fn limit<R: Runtime>(&self, connection: &mut Connection<R>) -> (Moment, Cause) {
        let (client, backend) = connection.legs();
        let half_closed = client.has_ended() || backend.has_ended();
        let waits_for_the_client = waits_for_nothing_but(client, backend);
        let limits = &connection.account.service.limits;
        let (silence, cause) = if half_closed {
            (limits.half_closed, Cause::HalfClosedIdle)
        } else {
            (limits.idle, Cause::Idle)
        };
        let mut first = (self.progress.deadline(silence), cause);
        let age = (connection.accepted.deadline(limits.lifetime), Cause::Lifetime);
        if age.0 < first.0 {
            first = age;
        }
        if waits_for_the_client {
            let ended = self.progress.max(self.looked).deadline(limits.backend_ended);
            if ended < first.0 {
                first = (ended, Cause::BackendEnded);
            }
        }
        first
    }

    /// What a limit that has passed means: an end, unless it turns out that the client is still receiving.
    ///
    /// The kernel does not say at its FIN whether a backend has closed or may still be sent to; a reset would tell, but
    /// comes only when something is sent. So its end is waited for by the clock.
    pub(super) fn limit_reached<R: Runtime>(
        &mut self,
        connection: &mut Connection<R>,
        cause: Cause,
        now: Moment,
    ) -> Result<(), CloseReason> {
        if cause != Cause::BackendEnded {
            return Err(CloseReason::new(Step::Relay, Side::Operator, cause));
        }
        let unacknowledged = connection.client().socket().unacknowledged();
        if unacknowledged == 0 {
            let limit = duration::written(connection.account.service.limits.backend_ended);
            let detail = format!("the client had everything, and nothing more came from it for {limit}");
            return Err(CloseReason::new(Step::Relay, Side::Backend, cause).because(detail));
        }
        if unacknowledged < self.unacknowledged {
            self.progress = now;
        }
        self.unacknowledged = unacknowledged;
        self.looked = now;
        Ok(())
    }
}

/// The backend has ended, the client has been notified, and everything that it sent has been passed on.
fn waits_for_nothing_but<S: Socket>(client: &Leg<S>, backend: &Leg<S>) -> bool {
    let nothing_waits = client.unsent() == 0 && backend.unsent() == 0;
    client.has_sent_close() && !client.has_ended() && nothing_waits && !client.is_in_a_record()
}
