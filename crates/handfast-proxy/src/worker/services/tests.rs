//! State that a thread keeps of backends that come and go.

use crate::backends::names::Addresses;
use std::time::SystemTime;

use handfast_net::clock::Moment;

use super::*;
use crate::state::{self, CarriedOver};
use crate::testing::Folder;
use handfast_observe::metrics::Registry;

fn addresses(last: u8) -> Addresses {
    let found = vec![SocketAddr::from(([10, 0, 0, last], 443))];
    Arc::new(HashMap::from([(("backend.example".to_owned(), 443), found)]))
}

/// A name that resolves to ever new addresses must not make a thread keep sessions with all of them, also where routes share them.
#[test]
fn sessions_with_addresses_of_long_ago_are_forgotten() {
    let folder = Folder::new();
    let more = "[admin]\nlisten = \"off\"\n[access-log]\nto = \"off\"\n[[service]]\nname = \"web\"\n\
                listen = \"127.0.0.1:0\"\nbackend = \"backend.example:443\"\ncertificate = \"web.pem\"\n\
                backend-tls = { ca = \"web.pem\" }\n[[service.rule]]\nnames = \"a.example\"\nbackend = \"10.0.1.1:443\"\n";
    let (config, _) = folder.configure_as(more, &[]).read(false).expect("it is right");
    let mut carried = CarriedOver::with_threads(1);
    let built = state::build(config, 1, None, &mut carried, SystemTime::now());
    let shared = Arc::new(built.state.expect("it can serve"));
    let metrics = Registry::new().thread("worker-0");
    let state = ThreadState::new(shared, None, &metrics, &addresses(0), 0).expect("TLS is set up");
    let service = &state.services[0];
    let dialler = service.dialler(Chosen::SERVICE).expect("TLS towards the backends");
    assert!(Rc::ptr_eq(dialler, service.dialler(Chosen { route: 1, failed: false }).expect("the same TLS")));
    for last in 1..20 {
        for backends in service.backends() {
            for endpoint in backends.group.endpoints() {
                dialler.session(&endpoint, None, Moment::now()).expect("it can begin");
            }
        }
        assert_eq!(dialler.endpoints(), 2, "the name's present address, and the rule's");
        state.resolve(&state, &addresses(last));
        assert_eq!(dialler.endpoints(), 1, "the rule's");
    }
}
