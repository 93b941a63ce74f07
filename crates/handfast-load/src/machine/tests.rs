//! In: texts as /proc writes them, and this machine. Out: that they are read as they are meant.

use super::*;

#[test]
fn the_facts_of_this_machine_name_what_every_linux_has() {
    let facts = facts();
    for name in ["kernel", "cores", "memory", "files"] {
        assert!(facts.get(name).is_some_and(|value| !value.is_empty()), "{name} in {facts:?}");
    }
    assert!(facts.values().all(|value| !value.contains('\t')), "{facts:?}");
}

#[test]
fn a_sysctl_that_is_not_there_is_left_out() {
    assert_eq!(sysctl("net.ipv4.no_such_thing"), None);
}

#[test]
fn fields_are_found_by_their_whole_name() {
    let cpuinfo = "processor\t: 0\nmodel name\t: Some CPU @ 2 GHz\nflags\t\t: fpu hypervisor sse\n";
    assert_eq!(field(cpuinfo, "model name").as_deref(), Some("Some CPU @ 2 GHz"));
    assert_eq!(field(cpuinfo, "model"), None);
    assert!(virtualisation(cpuinfo).is_some());
    assert_eq!(virtualisation("flags\t: fpu sse\n").is_some(), text("/sys/hypervisor/type").is_some());
    assert_eq!(memory("MemTotal:       16777216 kB\nMemFree: 1 kB\n").as_deref(), Some("16.0 GiB"));
}

#[test]
fn counters_that_moved_are_reported_and_the_others_are_not() {
    let table = |overflows: u32, drops: u32, other: u32| {
        let mut counters = KernelCounters::default();
        let text = format!(
            "TcpExt: ListenOverflows Unheard ListenDrops\nTcpExt: {overflows} {other} {drops}\n\
             IpExt: ListenDrops\nIpExt: 99\n"
        );
        counters.take(&text, "TcpExt:");
        counters
    };
    let moved = table(7, 2, 50).moved_since(&table(3, 2, 10));
    assert_eq!(moved, BTreeMap::from([("ListenOverflows".to_owned(), 4)]));
}

#[test]
fn a_table_without_values_counts_nothing() {
    let mut counters = KernelCounters::default();
    counters.take("Tcp: RetransSegs\n", "Tcp:");
    assert_eq!(counters, KernelCounters::default());
}

#[test]
fn the_kernel_counts_a_connection_of_ours() {
    let before = KernelCounters::read();
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let _client = std::net::TcpStream::connect_timeout(&address, std::time::Duration::from_secs(5)).unwrap();
    let moved = KernelCounters::read().moved_since(&before);
    assert!(moved.get("ActiveOpens").is_some_and(|opened| *opened >= 1), "{moved:?}");
}

#[test]
fn a_busy_share_is_what_is_not_idle_and_steal_is_distinguished() {
    let earlier = Ticks::parse("cpu  100 0 100 1000 0 0 0 0 0 0\ncpu0 1 1 1 1\n").unwrap();
    let later = Ticks::parse("cpu  130 0 110 1040 10 0 0 10 5 0\n").unwrap();
    let mut machine = MachineCpu { last: earlier, steal: 0.0 };
    assert!((machine.advance(later) - 0.5).abs() < 1e-9);
    assert!((machine.steal() - 0.1).abs() < 1e-9);
    assert!(machine.advance(later).abs() < 1e-9, "no time has passed");
    assert!(machine.steal().abs() < 1e-9);
}

#[test]
fn a_clock_that_goes_back_is_no_share() {
    let mut machine = MachineCpu { last: Ticks { all: u64::MAX, idle: u64::MAX, steal: 9 }, steal: 0.0 };
    assert!((0.0..=1.0).contains(&machine.share()));
}

#[test]
fn a_thread_that_works_is_seen_to_work() {
    let (before, _) = own_thread();
    let mut sum = 0_u64;
    while own_thread().0 < before + 5_000_000 {
        sum = std::hint::black_box(sum.wrapping_add(1));
    }
    let other = std::thread::Builder::new().name("other".into()).spawn(own_thread).unwrap().join().unwrap();
    assert!(other.0 < own_thread().0, "each thread has its own figures");
}

#[test]
fn schedstat_is_read_and_nonsense_is_not() {
    assert_eq!(schedstat("274311326 158324 11\n"), Some((274_311_326, 158_324)));
    assert_eq!(schedstat("274311326"), None);
    assert_eq!(schedstat("a b c"), None);
}

#[test]
fn the_program_has_a_hash_and_a_file_has_the_right_one() {
    assert_eq!(program_hash().len(), 64);
    assert_eq!(program_hash(), program_hash());
    let mut file = tempfile::NamedTempFile::new().unwrap();
    std::io::Write::write_all(&mut file, b"abc").unwrap();
    let hash = hash_of(file.path().to_str().unwrap()).unwrap();
    assert_eq!(hash, "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
    assert_eq!(hash_of("/no/such/file"), None);
}
