//! The kinds of client: one for all, or a mix of several; `--mix`, `--profile`, `--sni @FILE`.
//!
//! In: the options. Out: the TLS settings, and the resolved members of the mix; or every mistake.

use handfast_load::plan::mix::{MAX_MEMBERS, MemberWords, names as names_in, shares};
use handfast_load::plan::profile::Profile;
use handfast_load::plan::{Member, Tls, WeightedName, Work};

use super::requests::{from_file, one, place};
use super::tls;
use crate::load::mistakes::Mistakes;
use crate::words::load::TlsWords;
use handfast_load::plan::values::Aim;

/// The default TLS offer: of a profile, or ours.
pub(super) fn usual(profile: Option<&Profile>) -> Tls {
    let Some(profile) = profile else { return Tls::default() };
    let list = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
    Tls {
        versions: list(profile.versions),
        suites: list(profile.suites),
        groups: list(profile.groups),
        alpn: list(profile.alpn),
        ..Tls::default()
    }
}

/// The names of `--sni @FILE`.
pub(super) fn names(words: &TlsWords, mistakes: &mut Mistakes) -> Vec<WeightedName> {
    let Some(file) = words.sni.as_deref().and_then(|sni| sni.strip_prefix('@')) else { return Vec::new() };
    mistakes.read_all(&format!("--sni @{file}"), from_file(file, names_in))
}

/// Notes every TLS option: the target is plain HTTP.
pub(super) fn forbid(words: &TlsWords, mistakes: &mut Mistakes) {
    let TlsWords { tls, suites, groups, sni, alpn, client_certificate, client_key, verify, .. } = words;
    let TlsWords { ca, resume, early_data, profile, mix, .. } = words;
    let given = [
        ("--tls", tls.is_some()),
        ("--suites", suites.is_some()),
        ("--groups", groups.is_some()),
        ("--sni", sni.is_some()),
        ("--alpn", alpn.is_some()),
        ("--client-certificate", client_certificate.is_some()),
        ("--client-key", client_key.is_some()),
        ("--verify", *verify),
        ("--ca", ca.is_some()),
        ("--resume", resume.is_some()),
        ("--early-data", *early_data),
        ("--profile", profile.is_some()),
        ("--mix", !mix.is_empty()),
    ];
    mistakes.forbid("is about TLS, and an http:// target has none, expected https://", &given);
}

/// The TLS settings of all clients, and of each kind if there are several.
pub(super) fn clients(
    words: &TlsWords,
    aim: &Aim,
    work: &Work,
    mistakes: &mut Mistakes,
) -> (Tls, Vec<Member>) {
    if words.mix.is_empty() {
        return (tls(words, aim, work, mistakes), Vec::new());
    }
    // 0-RTT applies only to members that can use it.
    let early_data = words.early_data;
    let common = TlsWords { early_data: false, ..words.clone() };
    let base = tls(&common, aim, work, mistakes);
    let written = written(&words.mix, mistakes);
    let given: Vec<&str> = written.iter().map(|member| member.share.as_str()).collect();
    let weights = shares(&given).unwrap_or_else(|what| {
        mistakes.note("--mix", what);
        vec![1.0; written.len()]
    });
    let mut members = Vec::<Member>::new();
    for (number, (member, share)) in (1..).zip(written.iter().zip(weights)) {
        let name = if member.name.is_empty() { format!("client-{number}") } else { member.name.clone() };
        if members.iter().any(|known| known.name == name) {
            mistakes.note("--mix", format!("two members have the name `{name}`"));
        }
        let mut wrong = Mistakes::default();
        let mut tls = tls(&words_of(member, &common), aim, work, &mut wrong);
        wrong.0.iter().for_each(|what| mistakes.note("--mix", format!("`{name}`: {what}")));
        let can = tls.resume > 0.0 && tls.versions.iter().any(|version| version == "1.3");
        tls.early_data = early_data && can;
        members.push(Member { name, share, tls });
    }
    if members.len() > MAX_MEMBERS {
        mistakes.note("--mix", format!("{} members, expected at most {MAX_MEMBERS}", members.len()));
    }
    if early_data && !members.iter().any(|member| member.tls.early_data) {
        mistakes.note("--early-data", "no member of the mix resumes sessions of TLS 1.3");
    }
    (base, members)
}

/// Every member, as it was written.
fn written(mix: &[String], mistakes: &mut Mistakes) -> Vec<MemberWords> {
    let mut written = Vec::new();
    for text in mix {
        let parsed = match text.strip_prefix('@') {
            Some(file) => from_file(file, MemberWords::parse_file),
            None => one(MemberWords::parse(text)),
        };
        written.extend(mistakes.read_all(&place("--mix", text), parsed));
    }
    written
}

/// The options of a member: the common ones, replaced by its own.
fn words_of(member: &MemberWords, common: &TlsWords) -> TlsWords {
    let mut words = TlsWords { mix: Vec::new(), ..common.clone() };
    if member.words.iter().any(|(key, _)| key == "profile") {
        // The options for all members do not change a profile that a member has.
        (words.tls, words.suites, words.groups, words.alpn) = (None, None, None, None);
    }
    for (key, value) in &member.words {
        let value = value.clone();
        match key.as_str() {
            "profile" => words.profile = Some(value),
            "tls" => words.tls = Some(value),
            "suites" => words.suites = Some(value),
            "groups" => words.groups = Some(value),
            "sni" => words.sni = Some(value),
            "alpn" => words.alpn = Some(value),
            "resume" => words.resume = Some(value),
            "client-certificate" => words.client_certificate = Some(value.into()),
            // `MemberWords` rejects other keys.
            _ => words.client_key = Some(value.into()),
        }
    }
    words
}
