//! Connections are shared out by the backends' weights, exactly; weight 0 gets none; and a backup serves while no other is up.

use super::support::*;

fn serve(proxy: &Proxy, connections: usize) {
    let trust = Trust::version(Version::Tls13).config();
    for _ in 0..connections {
        let mut client = Client::connect(proxy.address(), &trust);
        client.echo(b"x");
        client.finish();
    }
}

#[test]
fn each_gets_its_share() {
    let (folder, backends) = (folder::Folder::new(), [(); 3].map(|()| Backend::echo()));
    let [three, one, none] = &backends;
    let list = format!(
        "[{{ address = \"{}\", weight = 3 }}, \"{}\", {{ address = \"{}\", weight = 0 }}]",
        three.address, one.address, none.address
    );
    let config =
        Config::to(&folder, three.address).set("service", "backend", list).set("process", "threads", 1);
    let proxy = Proxy::start(config.clone());
    serve(&proxy, 40);
    assert_eq!(backends.each_ref().map(Backend::accepted), [30, 10, 0]);
    // A reload turns it round.
    let list = format!(
        "[{{ address = \"{}\", weight = 0 }}, \"{}\", {{ address = \"{}\", weight = 4 }}]",
        three.address, one.address, none.address
    );
    proxy.rewrite(config.set("service", "backend", list));
    assert!(proxy.reload());
    serve(&proxy, 40);
    assert_eq!(backends.each_ref().map(Backend::accepted), [30, 18, 32]);
}

#[test]
fn a_backup_serves_while_no_other_is_up() {
    let (folder, serving, spare) = (folder::Folder::new(), Backend::echo(), Backend::echo());
    let list = format!("[\"{}\", {{ address = \"{}\", backup = true }}]", serving.address, spare.address);
    let config = Config::to(&folder, serving.address).set("service", "backend", list).text(
        "service.limits",
        "backend-retry",
        "200ms",
    );
    let proxy = Proxy::start(config);
    serve(&proxy, 10);
    assert_eq!((serving.accepted(), spare.accepted()), (10, 0), "both are up");
    let socket = serving.refuse();
    serve(&proxy, 10);
    assert_eq!(spare.accepted(), 10, "every client is served all the same");
    let back = Backend::on_bound(socket, backend::Peer::echo);
    wait_until("the first one to be used again", || {
        serve(&proxy, 1);
        (back.accepted() > 0).then_some(())
    });
    let served = spare.accepted();
    serve(&proxy, 10);
    assert_eq!(spare.accepted(), served, "the backup gets nothing any more");
}
