//! A configuration may be in parts: `include` adds the services of other files, each with its own relative paths. A reload looks for
//! the files again, one wrong file changes nothing, and every message names the file that it is about.

use std::net::SocketAddr;
use std::time::Instant;

use super::support::certificates::localhost;
use super::support::folder::Folder;
use super::support::http;
use super::support::tools::handfast;
use super::support::upgrade::upgrade;
use super::support::*;

const HEAD: &str = "include = \"conf.d/*.toml\"\n[access-log]\nto = \"off\"\n[admin]\nlisten = \"127.0.0.1:0\"\n[process]\nthreads = 1\n\
                    upgrade-socket = \"upgrade.sock\"\n";

/// A service that answers each request with its name.
fn service(name: &str) -> String {
    format!(
        "[[service]]\nname = \"{name}\"\nlisten = \"127.0.0.1:0\"\nclient-tls = false\nmode = \"http\"\n\
         [[service.route]]\nrespond = {{ status = 200, content = \"{name}\" }}\n"
    )
}

/// A proxy with one service in its main file; `conf.d` is empty.
fn started() -> (Proxy, Folder) {
    let mut parts = None;
    let proxy = Proxy::start_with(format!("{HEAD}{}", service("main")), |command| {
        let folder = Folder::new();
        let file = std::path::PathBuf::from(command.get_args().last().expect("the configuration"));
        std::os::unix::fs::symlink(folder.path(), file.with_file_name("conf.d")).expect("nothing is there");
        parts = Some(folder);
        command
    });
    (proxy, parts.expect("it was started"))
}

fn content(address: SocketAddr) -> String {
    http::get(address, "/", "*/*").body
}

#[test]
fn a_reload_finds_new_files_and_misses_those_that_are_gone() {
    let (proxy, parts) = started();
    assert_eq!(content(proxy.address_of("main")), "main");
    // Its certificate is named from the folder of the file, which the sandbox reaches although nothing was in it at the start.
    parts.write("web.pem", localhost().combined());
    let with_tls = service("shop").replace("client-tls = false", "certificate = \"web.pem\"");
    parts.write("shop.toml", with_tls);
    parts.write("blog.toml", service("blog"));
    assert!(proxy.reload(), "{:?}", proxy.talk.so_far());
    assert_eq!(content(proxy.address_of("blog")), "blog");
    drop(Client::connect(proxy.address_of("shop"), &Trust::any_version().config()));
    let names = |proxy: &Proxy| -> Vec<String> {
        let status = proxy.status();
        let services = status["services"].as_array().expect("a list").iter();
        services.map(|service| service["name"].as_str().expect("a name").to_owned()).collect()
    };
    assert_eq!(names(&proxy), ["blog", "main", "shop"]);
    std::fs::remove_file(parts.file("blog.toml")).expect("it is there");
    assert!(proxy.reload(), "{:?}", proxy.talk.so_far());
    let is_closed = |line: &String| line.contains("no longer listening on");
    wait_until("the address of the file that is gone", || {
        proxy.talk.so_far().iter().any(is_closed).then_some(())
    });
    assert_eq!(content(proxy.address_of("main")), "main");
}

#[test]
fn one_wrong_file_changes_nothing_and_is_named() {
    let (proxy, parts) = started();
    let main = proxy.address_of("main");
    parts.write("a.toml", service("main"));
    parts.write("b.toml", format!("{}balance = \"fair\"\n", service("b").split_at(12).1));
    assert!(!proxy.reload());
    // The answer does not wait for the thread that writes the log.
    for expected in
        ["two services are called `main`", "conf.d/a.toml:2:8", "handfast.toml:10:8", "conf.d/b.toml"]
    {
        let is_named = |line: &String| line.contains(expected);
        wait_until(expected, || proxy.talk.so_far().iter().any(is_named).then_some(()));
    }
    assert_eq!(content(main), "main");
}

#[test]
fn a_check_names_the_file_of_each_problem_and_of_each_service() {
    let folder = Folder::new();
    folder.folder("conf.d");
    let main = folder.write("handfast.toml", format!("{HEAD}{}", service("main"))).display().to_string();
    folder.write("conf.d/a.toml", service("a"));
    let explained = handfast(&["check", "--explain", "-c", &main]);
    assert_eq!(explained.code, Some(0), "{}", explained.all());
    let file = |name: &str| format!("is written in {}", folder.file(name).display());
    for (service, file) in [("main", file("handfast.toml")), ("a", file("conf.d/a.toml"))] {
        assert!(explained.output.contains(&format!("Service {service}\n  {file}\n")), "{}", explained.output);
    }
    folder.write("conf.d/a.toml", format!("[limits]\nidle = \"1m\"\n{}", service("main")));
    folder.write("conf.d/b.toml", "[[service]]\nname = \"b\"\nwrong = 1\n");
    let checked = handfast(&["check", "-c", &main]);
    assert_eq!(checked.code, Some(2), "{}", checked.all());
    for expected in [
        "`limits` cannot be in an included file",
        "conf.d/a.toml:1:2",
        "two services are called `main`",
        "conf.d/a.toml:4:8",
        "unknown key `wrong` in [[service]]",
        "conf.d/b.toml:3:1",
    ] {
        assert!(checked.talk.contains(expected), "{expected}: {}", checked.talk);
    }
}

#[test]
fn a_fifo_or_a_device_in_place_of_a_file_holds_nothing_up() {
    let folder = Folder::new();
    folder.folder("conf.d");
    let main = folder.write("handfast.toml", format!("{HEAD}{}", service("main"))).display().to_string();
    let mode = rustix::fs::Mode::RWXU;
    rustix::fs::mkfifoat(rustix::fs::CWD, folder.file("conf.d/a.toml"), mode).expect("a FIFO");
    std::os::unix::fs::symlink("/dev/zero", folder.file("conf.d/b.toml")).expect("a link");
    let started = Instant::now();
    let checked = handfast(&["check", "-c", &main]);
    assert_eq!(checked.code, Some(2), "{}", checked.all());
    for name in ["conf.d/a.toml", "conf.d/b.toml"] {
        let expected = format!("read the included file `{}`: ", folder.file(name).display());
        assert!(checked.talk.contains(&expected), "{expected}: {}", checked.talk);
    }
    assert!(started.elapsed() < DEADLINE);
}

#[test]
fn an_upgrade_reads_the_files_that_are_there_then() {
    let (proxy, parts) = started();
    parts.write("blog.toml", service("blog"));
    let successor = upgrade(&proxy, &[]).expect("it takes over");
    assert_eq!(content(proxy.address_of("blog")), "blog", "its lines are on the same output");
    drop(successor);
}
