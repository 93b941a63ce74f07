//! The end of accept: whether the client may come in, once its address is known.
//!
//! The address is the socket's, or the one that a proxy in front has named. So it is called at accept, or after the header that names it.

use handfast_net::clock::Moment;

use crate::admission::Denied;
use crate::path::account::Account;
use handfast_observe::cause::Cause;
use handfast_observe::metrics::Limit;
use handfast_observe::reason::{CloseReason, Side, Step};

/// Lets the client of a connection in, or says why not; counted.
///
/// **Cost**: nothing where the service has no such rule; else two searches in sorted lists, and one exchange in a table that
/// all threads share; a lock of a table where `max-connections-per-address` is set.
pub(crate) fn admit(account: &mut Account, now: Moment) -> Result<(), CloseReason> {
    let Some(client) = account.record.client else { return Ok(()) };
    let address = client.ip().to_canonical();
    let checked = match &account.service.admission {
        Some(admission) => admission.check(address, now),
        None => Ok(()),
    };
    let refused = match (checked, &account.service.address_limit) {
        (Err(refused), _) => refused,
        (Ok(()), None) => return Ok(()),
        (Ok(()), Some(limit)) => match limit.take(address) {
            Some(permit) => {
                account.address_permit = Some(permit);
                return Ok(());
            }
            None => Denied { limit: Limit::Address, cause: Cause::AddressLimit, detail: None },
        },
    };
    account.service.metrics.refused(refused.limit);
    Err(CloseReason {
        detail: refused.detail,
        ..CloseReason::new(Step::Accept, Side::Operator, refused.cause)
    })
}
