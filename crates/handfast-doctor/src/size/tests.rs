//! A size's arithmetic on machines made of files.

use super::*;
use crate::exam::testing::Planted;

fn costs(cores: u64) -> Costs {
    let mut costs = Costs {
        cpu: "made up".into(),
        source: "a test".into(),
        efficiency: 0.9,
        carried_bytes: 8_192,
        each: Vec::new(),
    };
    let term = |ns| vec![Term { name: "all".into(), ns }];
    costs.add("full", term(200e3), cores);
    costs.add("resumed", term(150e3), cores);
    costs.add("byte", term(0.4), cores);
    costs
}

fn pairs() -> std::io::Result<(Pairs, Vec<Unseen>)> {
    let pairs =
        Pairs { pairs: 1_000, bytes_each: 8_000, buffer_bytes_each: 100, by: "slabinfo", ..Pairs::default() };
    Ok((pairs, vec![("x", "y".into())]))
}

fn planned_load() -> PlannedLoad {
    PlannedLoad {
        full_per_second: 1_000.0,
        resumed_per_second: 2_000.0,
        key: "ECDSA-P256".into(),
        group: "X25519".into(),
        open: 10_000,
        bytes_per_second: 124_576_000,
        backends: 1,
        sources: 1,
        busy: 0.5,
        rtt_seconds: 0.1,
        cores: 2,
        ..PlannedLoad::default()
    }
}

fn made(planned: PlannedLoad) -> Size {
    let cores = planned.cores;
    size(&Planted::healthy().machine(), "handfast", planned, costs(cores), pairs())
}

fn need<'s>(topic: &str, size: &'s Size) -> &'s Need {
    size.needs.iter().find(|need| need.topic == topic).unwrap_or_else(|| panic!("{topic}: {:#?}", size.needs))
}

#[test]
fn cores_are_the_sum_of_what_each_takes() {
    let size = made(planned_load());
    // 1,000 × 200 µs + 2,000 × 150 µs + (124,576,000 - 3,000 × 8,192) × 0.4 ns = 0.2 + 0.3 + 0.04 s.
    let cores = need("cores", &size);
    assert!((cores.needed - 0.54 / 0.5 / 0.9).abs() < 1e-9, "{cores:?}");
    assert!(
        cores.arithmetic.contains("1,000/s full × 200 µs + 2,000/s resumed × 150 µs + 95.4 MiB a second"),
        "{cores:?}"
    );
    let rate = size.costs.each[0].per_second;
    assert!((rate - 9_000.0).abs() < 1e-6, "5,000 a core × 2 cores × 0.9: {rate}");
}

#[test]
fn memory_is_the_programs_and_the_kernels() {
    let size = made(planned_load());
    let buffers = 12_457_600 * 2;
    let idle = crate::costs::IDLE.bytes(10_000);
    let expected = crate::costs::EMPTY.value + idle + 10_000 * 8_000 + buffers;
    assert_eq!(need("memory", &size).needed as u64, expected);
    assert_eq!(need("tcp-memory", &size).needed as u64, buffers + 10_000 * 100);
    let both = made(PlannedLoad { backend_tls: true, ..planned_load() });
    let more = need("memory", &both).needed as u64 - expected;
    assert_eq!(more, (crate::costs::IDLE_BOTH.each - crate::costs::IDLE.each) * 10_000);
    let unmeasured = super::size(
        &Planted::healthy().machine(),
        "",
        planned_load(),
        costs(2),
        Err(std::io::Error::other("no loopback")),
    );
    assert_eq!(need("memory", &unmeasured).needed as u64, expected - 80_000_000);
    assert!(unmeasured.unseen.iter().any(|unseen| unseen.why == "no loopback"), "{:?}", unmeasured.unseen);
}

#[test]
fn tables_and_ports_hold_what_is_open_and_what_rests() {
    let size = made(planned_load());
    let figures = |topic| {
        let need = need(topic, &size);
        (need.needed as u64, need.here.map(|here| here as u64))
    };
    assert_eq!(figures("source-ports"), (10_000 + 180_000, Some(28_232)));
    assert_eq!(figures("conntrack"), (2 * (10_000 + 360_000), Some(262_144)));
    assert_eq!(figures("open-files"), (20_128, Some(524_288)));
    assert_eq!(figures("nr-open"), (20_128, Some(1_048_576)));
    assert_eq!(figures("file-max"), (20_128, Some(2_463_478)));
    assert_eq!(figures("accept-queue"), (150, Some(4_096)));
    assert_eq!(figures("time-wait-buckets"), (180_000, Some(131_072)));
    let ports = need("source-ports", &size);
    assert!(ports.change[0].contains("with 7 addresses"), "{ports:?}");
    assert!(ports.change.contains(&"sysctl -w net.ipv4.tcp_tw_reuse=1".to_owned()), "{ports:?}");
    let unix = made(PlannedLoad { backends: 0, ..planned_load() });
    assert!(unix.needs.iter().all(|need| need.topic != "source-ports"));
}

#[test]
fn what_gives_out_first_is_the_scarcest() {
    let size = made(planned_load());
    assert!(!size.fits());
    let first = size.first.as_ref().expect("something");
    assert_eq!((first.topic, first.open), ("source-ports", 1_485));
    assert!((first.at - 28_232.0 / 190_000.0).abs() < 1e-9);
    let report = to_report(&size);
    let found: Vec<_> = report.findings.iter().map(|finding| finding.topic).collect();
    assert_eq!(found, ["source-ports", "conntrack", "time-wait-buckets"]);
    assert_eq!(report.findings[0].title, "source-ports: 190,000 ports of 28,232 ports (673 %)");
    let last = &report.facts.last().expect("facts").value;
    assert_eq!(
        last,
        "source-ports, at 15 % of the planned load: 446/s new connections, 1,485 open connections, 17.7 MiB a second"
    );
    let idle = made(PlannedLoad {
        open: 2_000,
        backends: 1,
        sources: 1,
        busy: 0.7,
        cores: 2,
        ..PlannedLoad::default()
    });
    assert!(idle.fits(), "{:#?}", idle.needs);
    assert!(idle.needs.iter().all(|need| need.topic != "cores"), "nothing is computed for idle connections");
}

#[test]
fn what_is_not_known_is_reported() {
    let size = size(&Planted::new().machine(), "handfast", planned_load(), costs(2), pairs());
    assert!(
        size.unseen.iter().any(|unseen| unseen.what == "how much there is of memory"),
        "{:?}",
        size.unseen
    );
    assert_eq!(size.first.as_ref().map(|first| first.topic), Some("cores"));
    let json: serde_json::Value = serde_json::from_str(&size.to_json()).expect("JSON");
    assert_eq!(json["schema"], SCHEMA);
    assert_eq!(json["needs"][0]["topic"], "cores");
}

#[test]
fn the_published_schema_describes_it() {
    let schema = include_str!("../../../../docs/reference/size-report.schema.json");
    let validator =
        jsonschema::validator_for(&serde_json::from_str(schema).expect("JSON")).expect("a schema");
    let faults = |value: &serde_json::Value| -> Vec<String> {
        validator.iter_errors(value).map(|error| format!("{}: {error}", error.instance_path())).collect()
    };
    let mut value: serde_json::Value = serde_json::from_str(&made(planned_load()).to_json()).expect("JSON");
    assert_eq!(faults(&value), [""; 0]);
    // And it can complain.
    value["schema"] = "handfast-size/2".into();
    value["needs"][1]["unit"] = "tons".into();
    value["first"]["open"] = "many".into();
    value["memory"].as_object_mut().expect("an object").remove("kernel_bytes");
    assert_eq!(faults(&value).len(), 4, "{:#?}", faults(&value));
}
