//! Ten thousand rules of one service cost little memory, with each worker thread that has them: rules that ask the same of clients
//! share what is made for it.

use super::support::certificates::KeyKind;
use super::support::*;

const RULES: usize = 10_000;
/// Bytes that they may add to a process with two workers. 230 MB when each rule had separate TLS settings on each thread.
const MEMORY: u64 = 30 << 20;

#[test]
fn they_share_what_they_have_in_common() {
    let (folder, backend, other) = (folder::Folder::new(), Backend::echo(), Backend::echo());
    let names = ["name-9998.example", "name-9999.example"];
    let certificate = folder.write("web.pem", authority().identity(&names, KeyKind::Ecdsa).combined());
    let base = || {
        Config::empty().set("process", "threads", 2).service("web", backend.address).certificate(&certificate)
    };
    let memory = |config: Config| {
        let proxy = Proxy::start(config);
        let memory = proxy.process().memory();
        (proxy, memory)
    };
    let (_, without) = memory(base());
    let rules = (0..RULES).fold(base(), |config, number| {
        let config = config.rule(&format!("name-{number}.example"));
        // Half of them go elsewhere.
        if number % 2 == 0 { config } else { config.text("service.rule", "backend", other.address) }
    });
    let (proxy, with) = memory(rules);
    let added = with.saturating_sub(without);
    assert!(added <= MEMORY, "{added} bytes, allowed are {MEMORY}");
    // They decide all the same.
    let trust = Trust::version(Version::Tls13).config();
    for (name, to) in names.into_iter().zip([&backend, &other]) {
        let client = Client::try_connect(proxy.address(), &trust, name);
        client.unwrap_or_else(|refusal| panic!("{name}: {refusal:?}")).finish();
        let record = proxy.record(name, |record| record.text("sni") == name);
        assert_eq!(record.text("backend"), to.address.to_string(), "{record:?}");
    }
}
