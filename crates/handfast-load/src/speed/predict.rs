//! Predicts from single operations: arithmetic only, without measurements.
//!
//! In: a report with operations and handshakes. Out: sums. A server's handshake is its key exchange, its signature, and
//! *the rest*: key schedule, transcript, messages, records, tickets. The rest is the time of one handshake in memory without
//! its key exchange and its signature. For full handshakes it is taken from the one with the cheapest signature, Ed25519, where the
//! rest is the largest part and so measured best; for resumed ones from that with X25519. All other handshakes in memory serve to
//! check the arithmetic.

use handfast_report::speed::{Bulk, Handshake, Prediction, SpeedReport, Term, What};

use super::operations::{Cipher, Group, Signature};
use super::subject::{File, SIZES};

/// Kinds of keys that every client can verify; browsers take no Ed25519.
const SERVED: [Signature; 5] =
    [Signature::EcdsaP256, Signature::EcdsaP384, Signature::Rsa2048, Signature::Rsa3072, Signature::Rsa4096];
/// Handshakes that are always reported; `None`: resumed.
const ALWAYS: [(Option<Signature>, Group); 5] = [
    (Some(Signature::EcdsaP256), Group::X25519),
    (Some(Signature::EcdsaP256), Group::X25519Mlkem768),
    (Some(Signature::Rsa2048), Group::X25519),
    (None, Group::X25519),
    (None, Group::X25519Mlkem768),
];
/// Groups that are reported for each certificate given.
const FOR_FILES: [Group; 2] = [Group::X25519, Group::X25519Mlkem768];
/// The handshakes that give the rest.
const BASIS: (Signature, Group) = (Signature::Ed25519, Group::X25519);

/// All predictions: this machine's best, the usual ones, and those for the certificates given.
pub(super) fn handshakes(report: &SpeedReport, files: &[File]) -> Vec<Prediction> {
    let mut kinds: Vec<(Option<Signature>, Group, Option<&str>)> = Vec::new();
    kinds.extend(ALWAYS.map(|(signature, group)| (signature, group, None)));
    let fastest = |signatures: &[Option<Signature>]| {
        let all = signatures.iter().flat_map(|kind| Group::ALL.map(|group| (*kind, group, None)));
        let sums = all.filter_map(|choice| Some((choice, sum(&terms(report, choice.0, choice.1)?))));
        sums.min_by(|one, other| one.1.total_cmp(&other.1)).map(|(choice, _)| choice)
    };
    let best = [fastest(&SERVED.map(Some)), fastest(&[None])];
    for best in best.into_iter().flatten() {
        if !kinds.contains(&best) {
            kinds.insert(0, best);
        }
    }
    for (file, signature) in files {
        let signature = Some(*signature);
        kinds.extend(FOR_FILES.map(|group| (signature, group, Some(file.as_str()))));
    }
    let predict = |(signature, group, file): (Option<Signature>, Group, Option<&str>)| {
        let mut prediction = one(report, signature, group)?;
        prediction.best = best.contains(&Some((signature, group, file)));
        prediction.file = file.map(str::to_owned);
        Some(prediction)
    };
    kinds.into_iter().filter_map(predict).collect()
}

fn one(report: &SpeedReport, signature: Option<Signature>, group: Group) -> Option<Prediction> {
    let terms = terms(report, signature, group)?;
    let ns = sum(&terms);
    let measured = measured(report, signature, group);
    let name = match signature {
        Some(kind) => format!("full {} {}", kind.name(), group.name()),
        None => format!("resumed {}", group.name()),
    };
    Some(Prediction {
        name,
        certificate: signature.map(|kind| kind.name().into()),
        file: None,
        group: group.name().into(),
        terms,
        ns,
        per_second: 1e9 / ns,
        measured_ns: measured.map(|handshake| handshake.server.ns),
        basis: signature.map_or(group == BASIS.1, |kind| (kind, group) == BASIS),
        best: false,
    })
}

/// Terms of the handshake's time, the rest last; `None` when something was not measured.
fn terms(report: &SpeedReport, signature: Option<Signature>, group: Group) -> Option<Vec<Term>> {
    let mut terms = public(report, signature, group)?;
    let (basis, theirs) = match signature {
        Some(_) => (Some(BASIS.0), BASIS.1),
        None => (None, BASIS.1),
    };
    let whole = measured(report, basis, theirs)?.server.ns;
    let rest = whole - sum(&public(report, basis, theirs)?);
    terms.push(Term { name: "the rest".into(), ns: rest.max(0.0) });
    Some(terms)
}

/// Its operations with public keys.
fn public(report: &SpeedReport, signature: Option<Signature>, group: Group) -> Option<Vec<Term>> {
    let time = |what, name: &str| Some(report.operation(what, name, None)?.time.ns);
    let term = |name: &str, ns| Term { name: name.into(), ns };
    let mut terms = match group {
        // The server's two halves cannot be measured separately: encapsulation makes its share and the secret at once.
        Group::X25519Mlkem768 => vec![term("key exchange", time(What::Answer, group.name())?)],
        Group::X25519 | Group::P256 | Group::P384 => vec![
            term("key share", time(What::Share, group.name())?),
            term("agreement", time(What::Agree, group.name())?),
        ],
    };
    if let Some(kind) = signature {
        terms.push(term("signature", time(What::Sign, kind.name())?));
    }
    Some(terms)
}

fn sum(terms: &[Term]) -> f64 {
    terms.iter().map(|term| term.ns).sum()
}

fn measured(report: &SpeedReport, signature: Option<Signature>, group: Group) -> Option<&Handshake> {
    let name = signature.map(Signature::name);
    report
        .handshakes
        .iter()
        .find(|handshake| handshake.certificate.as_deref() == name && handshake.group == group.name())
}

/// Bytes of each cipher in full records, half of them each way.
pub(super) fn bulk(report: &SpeedReport) -> Vec<Bulk> {
    let one = |cipher: Cipher| {
        let size = u32::try_from(SIZES[0]).ok();
        let each = |what| Some(report.operation(what, cipher.name(), size)?.time.ns / SIZES[0] as f64);
        let (open_ns, seal_ns) = (each(What::Open)?, each(What::Seal)?);
        let ns = f64::midpoint(open_ns, seal_ns);
        Some(Bulk { name: cipher.name().into(), open_ns, seal_ns, ns, bytes_per_second: 1e9 / ns })
    };
    Cipher::ALL.into_iter().filter_map(one).collect()
}

#[cfg(test)]
mod tests {
    use handfast_report::speed::{Operation, Time};

    use super::*;

    fn operation(what: What, name: &str, bytes: Option<u32>, ns: f64) -> Operation {
        let time = Time { ns, spread: 0.0 };
        Operation { what, name: name.into(), bytes, time, per_second: time.per_second(), all_cores: None }
    }

    fn handshake(certificate: Option<&str>, group: &str, ns: f64) -> Handshake {
        let server = Time { ns, spread: 0.0 };
        Handshake {
            certificate: certificate.map(str::to_owned),
            group: group.into(),
            server,
            client: Time::default(),
            per_second: server.per_second(),
            all_cores: None,
        }
    }

    fn report() -> SpeedReport {
        let mut report = SpeedReport::default();
        for (name, share, agree, answer) in
            [("X25519", 18e3, 40e3, 60e3), ("P-256", 9e3, 60e3, 70e3), ("X25519MLKEM768", 1e9, 1e9, 97e3)]
        {
            let times = [(What::Share, share), (What::Agree, agree), (What::Answer, answer)];
            report.operations.extend(times.map(|(what, ns)| operation(what, name, None, ns)));
        }
        for (name, ns) in [("Ed25519", 12e3), ("ECDSA-P256", 21e3), ("RSA-2048", 600e3)] {
            report.operations.push(operation(What::Sign, name, None, ns));
        }
        report.handshakes = vec![
            handshake(Some("Ed25519"), "X25519", 100e3),
            handshake(Some("ECDSA-P256"), "X25519", 111e3),
            handshake(None, "X25519", 93e3),
        ];
        report
    }

    fn parts(prediction: &Prediction) -> Vec<(&str, f64)> {
        prediction.terms.iter().map(|term| (term.name.as_str(), term.ns)).collect()
    }

    #[test]
    fn a_handshake_is_the_sum_of_its_parts() {
        let report = report();
        let all = handshakes(&report, &[]);
        let names: Vec<_> = all.iter().map(|one| (one.name.as_str(), one.ns, one.best, one.basis)).collect();
        assert_eq!(
            names,
            [
                ("full ECDSA-P256 X25519", 109e3, true, false),
                ("full ECDSA-P256 X25519MLKEM768", 148e3, false, false),
                ("full RSA-2048 X25519", 688e3, false, false),
                ("resumed X25519", 93e3, true, true),
                ("resumed X25519MLKEM768", 132e3, false, false),
            ]
        );
        let expected = [("key share", 18e3), ("agreement", 40e3), ("signature", 21e3), ("the rest", 30e3)];
        assert_eq!(parts(&all[0]), expected);
        assert_eq!(parts(&all[4]), [("key exchange", 97e3), ("the rest", 35e3)]);
        assert_eq!(all[0].measured_ns, Some(111e3));
        assert_eq!(all[1].measured_ns, None);
        assert!((all[0].per_second - 1e9 / 109e3).abs() < 1e-6);
    }

    #[test]
    fn the_best_is_reported_whatever_it_is() {
        let mut report = report();
        let p256 = |row: &&mut Operation| row.name == "P-256" && row.what == What::Agree;
        report.operations.iter_mut().find(p256).expect("there").time.ns = 10e3;
        let all = handshakes(&report, &[]);
        let best: Vec<_> = all.iter().filter(|one| one.best).map(|one| one.name.as_str()).collect();
        assert_eq!(best, ["resumed P-256", "full ECDSA-P256 P-256"]);
        assert_eq!(all.len(), 7);
    }

    #[test]
    fn certificates_are_predicted_for() {
        let all = handshakes(
            &report(),
            &[("a.pem".into(), Signature::Ed25519), ("b.pem".into(), Signature::Rsa2048)],
        );
        let of: Vec<_> =
            all.iter().filter_map(|one| Some((one.file.as_deref()?, one.ns, one.basis, one.best))).collect();
        assert_eq!(
            of,
            [
                ("a.pem", 100e3, true, false),
                ("a.pem", 139e3, false, false),
                ("b.pem", 688e3, false, false),
                ("b.pem", 727e3, false, false)
            ]
        );
    }

    #[test]
    fn the_rest_is_never_negative_and_what_is_missing_is_left_out() {
        let mut report = report();
        report.handshakes[0].server.ns = 1e3;
        assert_eq!(parts(&handshakes(&report, &[])[0]).last(), Some(&("the rest", 0.0)));
        report.handshakes.remove(0);
        let names: Vec<_> = handshakes(&report, &[]).into_iter().map(|one| one.name).collect();
        assert_eq!(names, ["resumed X25519", "resumed X25519MLKEM768"]);
    }

    #[test]
    fn bulk_is_the_mean_of_both_ways() {
        let operations = vec![
            operation(What::Seal, "AES-128-GCM", Some(16_384), 3_276.8),
            operation(What::Open, "AES-128-GCM", Some(16_384), 4_915.2),
            operation(What::Seal, "AES-256-GCM", Some(16_384), 1.0),
        ];
        let report = SpeedReport { operations, ..SpeedReport::default() };
        let bulk = bulk(&report);
        assert_eq!(bulk.len(), 1);
        assert!(
            (bulk[0].ns - 0.25).abs() < 1e-12 && (bulk[0].bytes_per_second - 4e9).abs() < 1.0,
            "{bulk:?}"
        );
    }
}
