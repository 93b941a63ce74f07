//! A fault finds a small world: once it serves, every thread of the proxy is in a sandbox. It reads files where the
//! configuration of the start named some and nowhere else, which a reload that needs more reports, with the remedy; and serving needs
//! nothing of what is refused, so that the log does not mention the sandbox in normal operation.
//!
//! Tests of forbidden system calls are in `handfast-net/src/sys/sandbox/tests.rs`, beside the code that puts a thread into the sandbox.

use std::collections::HashMap;

use super::support::deadline::wait_until_seeing;
use super::support::folder::Folder;
use super::support::skip::skipped;
use super::support::*;

/// Fields of a thread's `/proc/…/status`, by the thread's name.
fn threads(proxy: &Proxy, field: &str) -> HashMap<String, u32> {
    let tasks = std::fs::read_dir(format!("/proc/{}/task", proxy.process().0)).expect("the process lives");
    let of = |task: std::fs::DirEntry| {
        let name = std::fs::read_to_string(task.path().join("comm")).ok()?;
        let status = std::fs::read_to_string(task.path().join("status")).ok()?;
        let value = status.lines().find_map(|line| line.strip_prefix(field))?.strip_prefix(":")?;
        Some((name.trim().to_owned(), value.trim().parse().ok()?))
    };
    tasks.flatten().filter_map(of).collect()
}

/// Messages of the proxy about its sandbox.
fn sandbox_messages(proxy: &Proxy) -> Vec<String> {
    proxy.talk.so_far().into_iter().filter(|line| line.contains("sandbox")).collect()
}

fn is_served(proxy: &Proxy) {
    let mut client = Client::connect(proxy.address(), &Trust::version(Version::Tls13).config());
    client.echo(b"in a small world");
    client.finish();
}

/// Reason why there is no sandbox here; `None` when there is.
fn missing(proxy: &Proxy) -> Option<String> {
    sandbox_messages(proxy).into_iter().find(|line| line.contains("served without"))
}

macro_rules! needs_a_sandbox {
    ($proxy:expr) => {
        if let Some(reason) = missing($proxy) {
            skipped!("{reason}");
        }
    };
}

#[test]
fn every_thread_is_in_it_and_those_that_serve_have_least() {
    let (folder, backend) = (Folder::new(), Backend::echo());
    let config = Config::to(&folder, backend.address);
    let checked = config.clone().set("service", "check", "{ type = \"tcp\" }");
    let proxy = Proxy::start(&checked);
    needs_a_sandbox!(&proxy);
    is_served(&proxy);
    let wait = |thread: &str, filters: u32| {
        wait_until_seeing(
            &format!("{thread} to have {filters} filters"),
            || (threads(&proxy, "Seccomp_filters").get(thread) == Some(&filters)).then_some(()),
            || format!("{:?}", threads(&proxy, "Seccomp_filters")),
        );
    };
    // The control thread's list; and the shorter one on top of it.
    for (thread, filters) in
        [("worker-0", 2), ("worker-1", 2), ("checks", 2), ("access-log", 1), ("handfast", 1), ("talk", 1)]
    {
        wait(thread, filters);
    }
    assert!(threads(&proxy, "Seccomp").values().all(|mode| *mode == 2), "{:?}", threads(&proxy, "Seccomp"));
    assert!(threads(&proxy, "NoNewPrivs").values().all(|set| *set == 1));
    assert_eq!(sandbox_messages(&proxy), Vec::<String>::new(), "nothing is refused that serving needs");

    let upgradable =
        Proxy::start(config.text("process", "upgrade-socket", folder.file("upgrade.sock").display()));
    let outside = || {
        let all = threads(&upgradable, "Seccomp").into_iter();
        all.filter_map(|(thread, mode)| (mode == 0).then_some(thread)).collect::<Vec<_>>()
    };
    // It alone can start the program that takes over.
    wait_until_seeing(
        "the launcher alone to be outside",
        || (outside() == ["launcher"]).then_some(()),
        || format!("{:?}", outside()),
    );
}

#[test]
fn a_reload_that_wants_files_elsewhere_changes_nothing_and_reports_the_reason() {
    let (folder, elsewhere, backend) = (Folder::new(), Folder::new(), Backend::echo());
    let config = Config::to(&folder, backend.address);
    let proxy = Proxy::start(&config);
    needs_a_sandbox!(&proxy);
    let beyond = elsewhere.write("other.pem", certificates::localhost().combined());
    let wants_it = config.clone().certificate(&beyond);
    proxy.rewrite(&wants_it);
    assert!(!proxy.reload());
    let message = proxy.talk.containing("out of reach of the sandbox");
    assert!(message.contains(&beyond.display().to_string()), "{message}");
    assert!(
        message.contains("restart, or `handfast upgrade`") && message.contains("process.sandbox-folders"),
        "{message}"
    );
    let refused = proxy.talk.containing("Permission denied");
    assert!(refused.contains("other.pem"), "by the kernel: {refused}");
    is_served(&proxy);
    // In the folder that it knows there may be more than there was.
    proxy.rewrite(
        config.clone().certificate(&folder.write("more.pem", certificates::localhost_rsa().combined())),
    );
    assert!(proxy.reload());

    let foreseen = config.text("process", "sandbox-folders", elsewhere.path().display());
    let proxy = Proxy::start(&foreseen);
    proxy.rewrite(foreseen.certificate(&beyond));
    assert!(proxy.reload(), "it was named before");
    is_served(&proxy);
}

/// No configuration names a link in a folder, and only the log has the outcome of an automatic reload.
#[test]
fn a_link_out_of_a_folder_is_named_with_where_it_leads() {
    let (folder, elsewhere, backend) = (Folder::new(), Folder::new(), Backend::echo());
    let served = folder.folder("served");
    let link = folder.file("served/web.pem");
    folder.write("served/web.pem", certificates::localhost().combined());
    let config = Config::empty()
        .text("process", "watch-interval", "200ms")
        .service("web", backend.address)
        .certificate(&served);
    let proxy = Proxy::start(config);
    needs_a_sandbox!(&proxy);
    let beyond = elsewhere.write("other.pem", certificates::localhost_rsa().combined());
    let aside = folder.file("aside");
    std::os::unix::fs::symlink(&beyond, &aside).expect("the folder is ours");
    std::fs::rename(aside, &link).expect("the folder is ours");
    let message = proxy.talk.containing("out of reach of the sandbox");
    let (link, beyond) = (link.display(), beyond.display());
    assert!(message.contains(&format!("{link}, which leads to {beyond}")), "{message}");
    assert!(message.contains("restart, or `handfast upgrade`"), "{message}");
    is_served(&proxy);
}

#[test]
fn a_renewal_behind_links_is_reached() {
    let (folder, backend) = (Folder::new(), Backend::echo());
    let archive = folder.folder("archive");
    folder.folder("live");
    folder.write("archive/web1.pem", certificates::localhost().combined());
    let live = folder.file("live/web.pem");
    std::os::unix::fs::symlink("../archive/web1.pem", &live).expect("the folder is ours");
    let proxy = Proxy::start(Config::empty().service("web", backend.address).certificate(&live));
    is_served(&proxy);
    // As certbot does it: a new file, and the link goes there.
    folder.write("archive/web2.pem", certificates::localhost().combined());
    let aside = folder.file("live/aside");
    std::os::unix::fs::symlink(archive.join("web2.pem"), &aside).expect("the folder is ours");
    std::fs::rename(aside, &live).expect("the folder is ours");
    assert!(proxy.reload());
    is_served(&proxy);
    assert!(
        sandbox_messages(&proxy).iter().all(|line| line.contains("served without")),
        "{:?}",
        sandbox_messages(&proxy)
    );
}

#[test]
fn without_it_everything_is_as_it_was_and_that_is_reported() {
    let (folder, elsewhere, backend) = (Folder::new(), Folder::new(), Backend::echo());
    let config = Config::to(&folder, backend.address).text("process", "sandbox", "off");
    let proxy = Proxy::start(&config);
    proxy.talk.containing("no sandbox (process.sandbox = \"off\")");
    assert!(threads(&proxy, "Seccomp_filters").values().all(|filters| *filters == 0));
    let beyond = elsewhere.write("other.pem", certificates::localhost().combined());
    proxy.rewrite(config.certificate(&beyond));
    assert!(proxy.reload());
    is_served(&proxy);
}
