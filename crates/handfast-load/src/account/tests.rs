//! In: processes that the tests start, and directories that look like control groups. Out: that their time is found.

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, Command, Stdio};

use super::*;

/// A shell that does one command after another, and answers each with a line.
struct Shell(Child, BufReader<std::process::ChildStdout>);

impl Shell {
    fn start() -> Self {
        let mut child = Command::new("bash")
            .args(["--norc", "--noprofile"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("bash is there");
        let lines = BufReader::new(child.stdout.take().unwrap());
        Self(child, lines)
    }

    fn run(&mut self, command: &str) {
        writeln!(self.0.stdin.as_mut().unwrap(), "{command}; echo done").unwrap();
        let mut line = String::new();
        self.1.read_line(&mut line).unwrap();
        assert_eq!(line, "done\n");
    }
}

impl Drop for Shell {
    fn drop(&mut self) {
        drop(self.0.stdin.take());
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

const WORK: &str = "for i in {1..60000}; do :; done";

#[test]
fn a_process_is_charged_for_its_own_work() {
    let mut shell = Shell::start();
    let mut accountant = Accountant::new(&Accounted::Pid(shell.0.id())).unwrap();
    shell.run(WORK);
    let used = accountant.end(1_000).unwrap();
    assert!(used.cpu_seconds > 0.005, "{used:?}");
    assert!((used.cpu_ns_per_transaction - used.cpu_seconds * 1e6).abs() < 1.0, "{used:?}");
    assert!(used.resident_bytes > 1 << 20, "{used:?}");
    assert_eq!(used.who, format!("pid {} (bash) and its children", shell.0.id()));

    accountant.begin();
    let idle = accountant.end(0).unwrap();
    assert!(idle.cpu_seconds < used.cpu_seconds / 2.0, "what came before the start is not counted: {idle:?}");
    assert!(idle.cpu_ns_per_transaction.abs() < f64::EPSILON, "no transaction, no price");
}

#[test]
fn children_are_charged_alive_and_ended() {
    let mut shell = Shell::start();
    let mut accountant = Accountant::new(&Accounted::Pid(shell.0.id())).unwrap();
    shell.run(&format!("bash --norc -c '{WORK}; {WORK}; {WORK}'"));
    let ended = accountant.end(1).unwrap();
    assert!(ended.cpu_seconds >= 0.02, "a child that ended and was waited for: {ended:?}");

    shell.run(&format!("coproc {{ bash --norc -c '{WORK}; {WORK}; {WORK}; echo ready; read; :'; }}"));
    accountant.begin();
    shell.run("read -r line <&\"${COPROC[0]}\"");
    let alive = accountant.end(1).unwrap();
    assert!(alive.cpu_seconds >= 0.005, "a child that lives: {alive:?}");
}

#[test]
fn one_that_lost_its_parent_is_still_charged() {
    let root = Stat { parent: 1, started: 5, own: 0, children: 0 };
    let child = Stat { parent: 10, started: 6, ..root };
    let grandchild = Stat { parent: 11, started: 7, ..root };
    let stranger = Stat { parent: 2, started: 8, ..root };
    let mut tree = Tree { root: 10, name: String::new(), members: BTreeMap::from([(10, 5)]), peak: 0 };
    tree.adopt(&BTreeMap::from([(9, grandchild), (10, root), (11, child), (12, stranger)]));
    assert_eq!(tree.members, BTreeMap::from([(9, 7), (10, 5), (11, 6)]));
    let orphan = Stat { parent: 1, ..grandchild };
    tree.adopt(&BTreeMap::from([(9, orphan), (10, root)]));
    assert!(tree.members.contains_key(&9));
}

#[test]
fn no_process_and_an_ended_one_are_reported() {
    let refusal = Accountant::new(&Accounted::Pid(u32::MAX)).unwrap_err();
    assert!(refusal.is_wrong_use() && refusal.what.contains("there is no such process"), "{refusal}");

    let shell = Shell::start();
    let mut accountant = Accountant::new(&Accounted::Pid(shell.0.id())).unwrap();
    drop(shell);
    let refusal = accountant.end(1).unwrap_err();
    assert!(!refusal.is_wrong_use() && refusal.what.contains("it ended before the run did"), "{refusal}");
}

#[test]
fn a_name_with_parentheses_does_not_shift_the_fields() {
    let line = "77 (a) b) (c) S 12 77 77 0 -1 4194304 1 2 3 4 100 20 7 3 20 0 1 0 9999 1 2\n";
    assert_eq!(Stat::parse(line), Some(Stat { parent: 12, own: 120, children: 10, started: 9_999 }));
    for nonsense in ["", "77", "77 (x)", "77 (x) S", "77 (x) S a b c d e f g h i j k l m n o p q r s t"] {
        assert_eq!(Stat::parse(nonsense), None, "{nonsense}");
    }
}

fn file(directory: &Path, name: &str, text: &str) {
    fs::create_dir_all(directory).unwrap();
    fs::File::create(directory.join(name)).unwrap().write_all(text.as_bytes()).unwrap();
}

#[test]
fn a_group_of_version_2_is_read_in_microseconds() {
    let place = tempfile::tempdir().unwrap();
    file(place.path(), "cpu.stat", "usage_usec 1000\nuser_usec 600\nsystem_usec 400\n");
    file(place.path(), "memory.peak", "8192\n");
    let mut accountant = Accountant::new(&Accounted::Cgroup(place.path().into())).unwrap();
    file(place.path(), "cpu.stat", "usage_usec 3000\n");
    let used = accountant.end(4).unwrap();
    assert!((used.cpu_seconds - 0.002).abs() < 1e-12, "{used:?}");
    assert!((used.cpu_ns_per_transaction - 500_000.0).abs() < 1e-6, "{used:?}");
    assert_eq!(used.resident_bytes, 8_192);
}

#[test]
fn a_group_of_version_1_is_read_in_two_trees() {
    let place = tempfile::tempdir().unwrap();
    let group = place.path().join("cpu,cpuacct/servers/one");
    file(&group, "cpuacct.usage", "500\n");
    file(&place.path().join("memory/servers/one"), "memory.max_usage_in_bytes", "4096\n");
    let mut accountant = Accountant::new(&Accounted::Cgroup(group.clone())).unwrap();
    file(&group, "cpuacct.usage", "1500\n");
    let used = accountant.end(2).unwrap();
    assert!((used.cpu_ns_per_transaction - 500.0).abs() < 1e-9, "{used:?}");
    assert_eq!(used.resident_bytes, 4_096);
    fs::remove_file(group.join("cpuacct.usage")).unwrap();
    assert!(accountant.end(1).unwrap_err().what.contains("ended before"));
}

#[test]
fn a_directory_that_is_no_group_is_refused() {
    let place = tempfile::tempdir().unwrap();
    let refusal = Accountant::new(&Accounted::Cgroup(place.path().into())).unwrap_err();
    assert!(refusal.is_wrong_use() && refusal.what.contains("cpuacct.usage"), "{refusal}");
}
