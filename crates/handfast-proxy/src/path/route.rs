//! Step 4, route: which rules decide about a client. Pure: the same hello gives the same answer.
//!
//! In: the name and the protocols that the hello asks for. Out: the index of the route whose policy and backends apply, and why
//! it was chosen. It is chosen with the hello alone and before the handshake, since the policy is part of the answer, and
//! whether there is a handshake at all; connect takes the backends from it.

use crate::worker::services::Chosen;
use handfast_tls::session::{Agreed, Verdict};
use handfast_wire::ClientHello;

use crate::path::connection::Connection;
use handfast_leg::runtime::Runtime;

/// Step 4 of a connection: selects its rules. The reason is noted for the access log.
pub(crate) fn choose<R: Runtime>(connection: &mut Connection<R>, hello: &ClientHello) -> Chosen {
    let account = &mut connection.account;
    let (route, reason) = account.service.table.choose(hello.server_name.as_deref(), &hello.alpn);
    account.record.rule = reason.cloned();
    Chosen { route, failed: false }
}

/// Updates the choice after the handshake: a client whose certificate failed, but that was not refused for it, is served by the backends
/// for such clients and by no others.
pub(crate) fn after_handshake(chosen: Chosen, agreed: &Agreed) -> Chosen {
    Chosen { failed: matches!(agreed.verdict.as_deref(), Some(Verdict::Failed { .. })), ..chosen }
}

#[cfg(test)]
mod tests {
    use crate::worker::services::Chosen;
    use handfast_pki::presented::CertificateFault;

    use super::*;

    #[test]
    fn whose_certificate_failed_is_for_the_backends_of_such_clients() {
        let chosen = Chosen { route: 4, failed: false };
        let agreed = |verdict: Verdict| Agreed { verdict: Some(Box::new(verdict)), ..Agreed::default() };
        let failed = agreed(Verdict::Failed { fault: CertificateFault::Expired, words: "expired".into() });
        assert_eq!(after_handshake(chosen, &failed), Chosen { route: 4, failed: true });
        for good in [Agreed::default(), agreed(Verdict::Allowed("any".into()))] {
            assert_eq!(after_handshake(chosen, &good), chosen);
        }
    }
}
