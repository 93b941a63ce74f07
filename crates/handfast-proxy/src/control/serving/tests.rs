//! The stages of a start, one after the other, with workers and clients.

use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::path::PathBuf;
use std::rc::Rc;
use std::time::Duration;

use tokio::task::LocalSet;

use super::*;
use crate::control::start::Prepared;
use crate::testing::Folder;
use handfast_admin::{Control, NotReady};
use handfast_process::service_manager::ServiceManager;

/// A port that is free now.
fn free_port() -> u16 {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("loopback has a free port");
    listener.local_addr().expect("it is bound").port()
}

fn connects(port: u16) -> bool {
    let address = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
    TcpStream::connect_timeout(&address, Duration::from_secs(10)).is_ok()
}

/// Fixture of a start: a port, and a unix socket whose file shows the actions.
struct Scene {
    folder: Folder,
    port: u16,
    socket: PathBuf,
}

impl Scene {
    fn new() -> Self {
        let folder = Folder::new();
        Self { port: free_port(), socket: folder.path("web.sock"), folder }
    }

    async fn prepare(&self) -> Result<Prepared, Error> {
        let (tcp, unix) = (format!("127.0.0.1:{}", self.port), format!("unix:{}", self.socket.display()));
        let process = "[process]\nthreads = 2\nsandbox = \"off\"\ndrain = \"5s\"\nmax-connections = 8\n";
        let more = format!("[admin]\nlisten = \"off\"\n{process}");
        let source = self.folder.configure(&more, &[("web", &[&tcp, &unix])]);
        Prepared::new(&source, false, ServiceManager::default(), None).await
    }
}

/// Runs on a separate control thread.
fn on_the_control_thread(test: impl Future<Output = ()>) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    LocalSet::new().block_on(&runtime, test);
}

#[test]
fn each_stage_does_its_own_part_and_dropping_it_undoes_that() {
    on_the_control_thread(async {
        let scene = Scene::new();
        let prepared = scene.prepare().await.expect("it is right");
        assert!(!scene.socket.exists(), "nothing is bound");
        let bound = prepared.bind().expect("both are free");
        assert!(scene.socket.exists());
        assert!(!connects(scene.port), "bound, and no client is admitted");
        drop(bound);
        assert!(!scene.socket.exists());

        let serving =
            scene.prepare().await.expect("it is right").bind().expect("both are free").serve().await;
        let serving = serving.expect("it serves");
        assert_eq!(serving.program.shared.ready(), Ok(()));
        assert!(connects(scene.port));
        let shared = Rc::clone(&serving.program.shared);
        shared.drain();
        assert_eq!(serving.serve().await, Outcome::Good);
        assert!(matches!(shared.ready(), Err(NotReady::Draining { .. })));
        assert!(!connects(scene.port) && !scene.socket.exists());
    });
}

#[test]
fn an_error_is_refused_in_the_first_stage_that_can_detect_it() {
    on_the_control_thread(async {
        let scene = Scene::new();
        let source =
            scene.folder.configure("[process]\nuser = \"no-such-user\"\n", &[("web", &["127.0.0.1:0"])]);
        let refused = Prepared::new(&source, false, ServiceManager::default(), None)
            .await
            .expect_err("no service has that name");
        assert_eq!(refused.outcome(), Outcome::WrongUse);
        let prepared = scene.prepare().await.expect("it is right in itself");
        let _other = std::net::TcpListener::bind((Ipv4Addr::LOCALHOST, scene.port)).expect("it is free");
        let refused = prepared.bind().expect_err("it is not any more");
        assert_eq!(refused.outcome(), Outcome::Failed);
        assert!(refused.to_string().contains("(service web)"), "{refused}");
        assert!(!scene.socket.exists(), "the other address was given back");
    });
}

#[test]
fn a_reload_is_installed_or_refused_and_its_requester_gets_the_result() {
    on_the_control_thread(async {
        let scene = Scene::new();
        let serving =
            scene.prepare().await.expect("it is right").bind().expect("both are free").serve().await;
        let serving = serving.expect("it serves");
        let (shared, registry) = (Rc::clone(&serving.program.shared), Arc::clone(&serving.program.registry));
        let program = tokio::task::spawn_local(serving.serve());
        let result = shared.reload().await.expect("nothing is wrong");
        assert_eq!(result, "reloaded: configuration was read again; generation 2");
        scene.folder.write("handfast.toml", "[admin]\nlisten = 7\n");
        let result = shared.reload().await;
        assert!(
            matches!(&result, Err(ReloadRefusal::Refused { problems }) if problems.contains("listen")),
            "{result:?}"
        );
        let seen = registry.snapshot().reload;
        assert_eq!((seen.generation, seen.succeeded, seen.failed), (Some(2), 1, 1));
        assert!(connects(scene.port), "the old state goes on");
        shared.drain();
        assert_eq!(program.await.expect("it does not panic"), Outcome::Good);
    });
}
