//! `acl`, `if` and `unless`: conditions of rules.

use super::around::Around;
use super::grammar::{self, Line};
use super::value::parts;
use crate::ImportError;
use crate::address::network;
use crate::cells::{Atom, Formula, PathStart};

/// Patterns of one condition. A route can have this number of hosts.
const MAX_PATTERNS: usize = 1000;
const DEPTH: &str = "`*` is one part of a name, not several: a.b.example.org is not in *.example.org";

/// Phase in which a condition is evaluated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Phase {
    /// Before a request is read: names in the ClientHello and addresses are available.
    Connection,
    Request,
    /// Fields are those of the response, so only the connection of the request is available.
    Response,
}

/// Reason why an expression is no condition of a route.
#[derive(Debug, thiserror::Error)]
pub(super) enum ConditionError {
    /// The named condition cannot be read.
    #[error("acl {name}: {source}")]
    Named { name: String, source: Box<ConditionError> },
    #[error("acl {0}: there is none of this name")]
    UnknownName(String),
    #[error("{line}: it depends on an environment variable: write its value")]
    Variable { line: String },
    #[error("expected a condition")]
    Empty,
    /// A file of patterns cannot be read.
    #[error(transparent)]
    Patterns(#[from] ImportError),
    #[error("{0} is not read: write the patterns")]
    Flag(String),
    #[error("it has more than {MAX_PATTERNS} patterns")]
    ManyPatterns,
    #[error("the converter {0} is not known to routes")]
    Converter(String),
    #[error("only a host is compared without what follows it")]
    OnlyHostWithoutPort,
    #[error("it has patterns")]
    HasPatterns,
    #[error("what a response has, or which request it is for, decides nothing: write the rule without it")]
    OfResponse,
    #[error("the name in TLS is read where TLS is passed through: ssl_fc_sni is that of this TLS")]
    OfHello,
    #[error("{0}: requests are not read here")]
    OfRequest(String),
    #[error("a request always has a Host")]
    AlwaysHost,
    #[error("expected methods such as GET")]
    Methods,
    #[error(
        "{0}: routes are for hosts, beginnings of paths, methods and fields, and certain addresses, certificates or users"
    )]
    OtherFetch(String),
    #[error("expected addresses such as 10.0.0.0/8")]
    Address,
    #[error("it listens on several ports: write a frontend for each")]
    SeveralPorts,
    #[error("expected numbers of ports")]
    Ports,
    #[error("{0}: expected the name of a host")]
    HostName(String),
    #[error("-m {0}: names of hosts are exact, or all in a domain")]
    HostMethod(String),
    #[error("expected names of hosts")]
    NoHosts,
    #[error("{0}: expected the name of a field")]
    FieldName(String),
    #[error("a field has one value, without commas")]
    FieldList,
    #[error("-m {0}: a field is there, or has exactly a value")]
    FieldMethod(String),
    #[error("{0}: expected the beginning of a path, without a query")]
    Path(String),
    #[error("a route cannot be for the path `/` alone: the application must answer it")]
    OnlyRoot,
    #[error("a route for {0} is for all paths below it, too")]
    ExactFolder(String),
    #[error("-m {0}: a route has the beginning of a path, and no end or expression")]
    PathMethod(String),
    #[error("expected a path")]
    NoPath,
}

/// A condition that is read.
pub(super) type Read = Result<Formula, ConditionError>;

/// The condition behind `if` or `unless` in the words; without one, always.
pub(super) fn condition(words: &[String], around: &mut Around<'_, '_>, phase: Phase) -> Read {
    let Some(at) = words.iter().position(|word| word == "if" || word == "unless") else {
        return Ok(Formula::Always(true));
    };
    let formula = terms(&words[at + 1..], around, phase)?;
    Ok(if words[at] == "unless" { formula.negated() } else { formula })
}

fn terms(words: &[String], around: &mut Around<'_, '_>, phase: Phase) -> Read {
    let (mut any, mut all) = (Vec::new(), Vec::new());
    let mut words = words.iter();
    let mut is_negated = false;
    while let Some(word) = words.next() {
        let mut word = word.as_str();
        while let Some(rest) = word.strip_prefix('!') {
            (word, is_negated) = (rest, !is_negated);
        }
        let formula = match word {
            "" => continue,
            "or" | "||" => {
                any.push(Formula::All(std::mem::take(&mut all)));
                continue;
            }
            "{" => {
                let inner: Vec<String> = words.by_ref().take_while(|word| *word != "}").cloned().collect();
                expression(&inner, around, phase)?
            }
            name => named(name, around, phase)?,
        };
        all.push(if std::mem::take(&mut is_negated) { formula.negated() } else { formula });
    }
    any.push(Formula::All(all));
    Ok(Formula::Any(any))
}

fn named(name: &str, around: &mut Around<'_, '_>, phase: Phase) -> Read {
    let lines: Vec<&Line> = around.proxy.acls(name);
    if !lines.is_empty() {
        let mut any = Vec::new();
        for line in lines {
            if !line.variables.is_empty() {
                return Err(ConditionError::Variable { line: line.text() });
            }
            let read = expression(line.from(2), around, phase);
            any.push(
                read.map_err(|error| ConditionError::Named {
                    name: name.to_owned(),
                    source: Box::new(error),
                })?,
            );
        }
        return Ok(Formula::Any(any));
    }
    let methods = |methods: &[&str]| {
        Ok(Formula::atom(Atom::Methods(methods.iter().map(|method| (*method).to_owned()).collect())))
    };
    match name {
        "TRUE" | "HTTP" | "REQ_CONTENT" | "WAIT_END" => Ok(Formula::Always(true)),
        "FALSE" | "METH_CONNECT" => Ok(Formula::Always(false)),
        "LOCALHOST" => Ok(Formula::atom(Atom::Source(vec!["127.0.0.0/8".into(), "::1".into()]))),
        "METH_GET" => methods(&["GET", "HEAD"]),
        "METH_DELETE" | "METH_HEAD" | "METH_OPTIONS" | "METH_POST" | "METH_PUT" | "METH_TRACE" => {
            methods(&[&name[5..]])
        }
        _ => Err(ConditionError::UnknownName(name.to_owned())),
    }
}

/// One comparison: a fetch, its converters and the patterns.
struct Test {
    /// The fetch, without `req.` and its arguments.
    fetch: String,
    argument: String,
    converters: Vec<String>,
    method: String,
    ignores_case: bool,
    patterns: Vec<String>,
}

/// Names of fetches that end in a method of comparison: `path_beg` is `path -m beg`.
const METHODS: [&str; 8] = ["str", "beg", "end", "dir", "dom", "len", "reg", "sub"];

fn test(words: &[String], around: &Around<'_, '_>) -> Result<Test, ConditionError> {
    let first = words.first().ok_or(ConditionError::Empty)?;
    let mut parts = parts(first).into_iter();
    let first = parts.next().unwrap_or_default();
    let (name, argument) = match first.split_once('(') {
        Some((name, argument)) => (name.to_owned(), argument.trim_end_matches(')').to_owned()),
        None => (first.clone(), String::new()),
    };
    let name = name.strip_prefix("req.").unwrap_or(&name);
    let name = if name.starts_with("req_ssl") { &name[4..] } else { name }.to_owned();
    let (fetch, mut method) = match name.rsplit_once('_') {
        Some((fetch, method)) if METHODS.contains(&method) && fetch != "wait" => {
            (fetch.to_owned(), method.to_owned())
        }
        _ => (name, String::new()),
    };
    let (mut ignores_case, mut patterns, mut has_flags) = (false, Vec::new(), true);
    let mut rest = words[1..].iter();
    while let Some(word) = rest.next() {
        has_flags &= word.starts_with('-');
        match word.as_str() {
            pattern if !has_flags => patterns.push(pattern.to_owned()),
            "-i" => ignores_case = true,
            "-n" => {}
            "-m" => method = rest.next().cloned().unwrap_or_default(),
            "-f" => {
                let file = around.path(rest.next().map_or("", String::as_str));
                patterns.extend(grammar::entries(std::path::Path::new(&file))?);
            }
            "--" => patterns.extend(rest.by_ref().cloned()),
            flag => return Err(ConditionError::Flag(flag.to_owned())),
        }
    }
    if patterns.len() > MAX_PATTERNS {
        return Err(ConditionError::ManyPatterns);
    }
    Ok(Test { fetch, argument, converters: parts.collect(), method, ignores_case, patterns })
}

fn expression(words: &[String], around: &mut Around<'_, '_>, phase: Phase) -> Read {
    let mut test = test(words, around)?;
    let converters: Vec<String> = std::mem::take(&mut test.converters);
    let mut is_without_port = false;
    for converter in &converters {
        match converter.as_str() {
            "lower" => test.ignores_case = true,
            "host_only" | "field(1,:)" => is_without_port = true,
            other => return Err(ConditionError::Converter(other.to_owned())),
        }
    }
    if is_without_port && !test.argument.eq_ignore_ascii_case("host") {
        return Err(ConditionError::OnlyHostWithoutPort);
    }
    let none = |formula: Formula| {
        if test.patterns.is_empty() { Ok(formula) } else { Err(ConditionError::HasPatterns) }
    };
    match (test.fetch.as_str(), test.argument.to_ascii_lowercase().as_str()) {
        ("always_true" | "wait_end", "") => none(Formula::Always(true)),
        ("always_false", "") => none(Formula::Always(false)),
        ("ssl_fc", "") => none(Formula::Always(around.facts.has_tls)),
        ("ssl_fc_has_sni", "") if !around.facts.has_tls => none(Formula::Always(false)),
        ("dst_port", "") => port(&test, around),
        ("src" | "fc_src", "") => source(&test),
        ("ssl_hello_type", "") if around.is_passed_through => {
            Ok(Formula::Always(test.patterns.iter().any(|pattern| pattern == "1")))
        }
        ("ssl_hello_type", "") => Ok(Formula::Always(false)),
        _ if phase == Phase::Response => Err(ConditionError::OfResponse),
        ("ssl_sni", "") if around.is_passed_through => hosts(&test),
        ("ssl_sni", "") => Err(ConditionError::OfHello),
        ("ssl_fc_sni", "") if !around.facts.has_tls => Ok(Formula::Always(false)),
        ("ssl_fc_sni", "") => {
            if phase == Phase::Request {
                let effect = "the Host of a request decides, not the name in TLS: where both differ, the answer is 421, unless the certificate has both";
                around.remark("ssl_fc_sni", effect);
            }
            hosts(&test)
        }
        ("ssl_c_s_dn", "cn") => {
            let names = test.patterns.iter().map(|name| format!("cn:{name}")).collect();
            Ok(Formula::atom(Atom::Certificate(names)))
        }
        _ if phase == Phase::Connection => Err(ConditionError::OfRequest(test.fetch.clone())),
        ("hdr" | "fhdr", "host" | "host,1" | "host,-1") => {
            if test.method == "found" || test.method == "len" {
                return Err(ConditionError::AlwaysHost);
            }
            if !is_without_port {
                around.remark(
                    "host",
                    "the host is compared without the port that a client may write behind it",
                );
            }
            hosts(&test)
        }
        ("hdr" | "fhdr", name) if !name.is_empty() && !name.contains(',') => field(&test, name),
        ("hdr_cnt", name) if !name.is_empty() && test.patterns == ["gt", "0"] => {
            Ok(Formula::atom(Atom::Field(name.into(), None)))
        }
        ("path", "") => paths(&test),
        ("url" | "pathq", "") if test.method == "beg" => paths(&test),
        ("method", "") => {
            let is_method = |method: &String| method.bytes().all(|byte| byte.is_ascii_uppercase());
            if test.patterns.is_empty() || !test.patterns.iter().all(is_method) {
                return Err(ConditionError::Methods);
            }
            Ok(Formula::atom(Atom::Methods(test.patterns.clone())))
        }
        ("http_auth", list) if !list.is_empty() => none(Formula::atom(Atom::User(test.argument.clone()))),
        (fetch, _) => Err(ConditionError::OtherFetch(fetch.to_owned())),
    }
}

fn source(test: &Test) -> Read {
    let known: Option<Vec<_>> = test.patterns.iter().map(|text| network(text)).collect();
    Ok(Formula::atom(Atom::Source(known.filter(|known| !known.is_empty()).ok_or(ConditionError::Address)?)))
}

fn port(test: &Test, around: &Around<'_, '_>) -> Read {
    let port = around.facts.port.ok_or(ConditionError::SeveralPorts)?;
    let tested_ports: Option<Vec<u16>> = test.patterns.iter().map(|text| text.parse().ok()).collect();
    let tested_ports = tested_ports.filter(|ports| !ports.is_empty()).ok_or(ConditionError::Ports)?;
    Ok(Formula::Always(tested_ports.contains(&port)))
}

/// Names, by the way in which they are compared.
fn hosts(test: &Test) -> Read {
    let mut names: Vec<String> = Vec::new();
    let mut what = None;
    for pattern in &test.patterns {
        let pattern = pattern.to_ascii_lowercase();
        let pattern = match pattern.rsplit_once(':') {
            Some((name, port)) if port.parse::<u16>().is_ok() && !name.ends_with(':') => name.to_owned(),
            _ => pattern,
        };
        let domain = pattern.strip_prefix('.').unwrap_or(&pattern).to_owned();
        if !domain.bytes().all(|byte| byte.is_ascii_alphanumeric() || b".-_[]:".contains(&byte))
            || domain.is_empty()
        {
            return Err(ConditionError::HostName(pattern));
        }
        match test.method.as_str() {
            "" | "str" => names.push(pattern),
            "end" | "dom" => {
                if !pattern.starts_with('.') {
                    names.push(domain.clone());
                }
                names.push(format!("*.{domain}"));
                what = Some(DEPTH);
            }
            other => return Err(ConditionError::HostMethod(other.to_owned())),
        }
    }
    if names.is_empty() {
        return Err(ConditionError::NoHosts);
    }
    let atom = Atom::Hosts(names);
    Ok(what.map_or_else(|| Formula::atom(atom.clone()), |what| Formula::narrower(atom.clone(), what)))
}

fn field(test: &Test, name: &str) -> Read {
    if name.bytes().any(|byte| !byte.is_ascii_alphanumeric() && byte != b'-' && byte != b'_') {
        return Err(ConditionError::FieldName(name.to_owned()));
    }
    match test.method.as_str() {
        "found" => Ok(Formula::atom(Atom::Field(name.into(), None))),
        "" | "str" if test.patterns.iter().any(|value| value.contains(',')) => Err(ConditionError::FieldList),
        "" | "str" => {
            let what = if test.ignores_case {
                "the field has exactly this value, in upper and lower case as written"
            } else {
                "the field has exactly this value, not as one of several that are separated by commas"
            };
            let exact =
                |value: &String| Formula::narrower(Atom::Field(name.into(), Some(value.clone())), what);
            Ok(Formula::Any(test.patterns.iter().map(exact).collect()))
        }
        other => Err(ConditionError::FieldMethod(other.to_owned())),
    }
}

fn paths(test: &Test) -> Read {
    let mut any = Vec::new();
    for path in &test.patterns {
        if !path.starts_with('/')
            || !path.bytes().all(|byte| byte.is_ascii_graphic() && !b"%?#".contains(&byte))
        {
            return Err(ConditionError::Path(path.clone()));
        }
        let start = |end: &str| PathStart::new(format!("{path}{end}"), test.ignores_case);
        match test.method.as_str() {
            "beg" if path == "/" => any.push(Formula::Always(true)),
            "beg" if path.ends_with('/') => any.push(Formula::atom(Atom::Path(start("")))),
            "beg" => any.push(Formula::atom(Atom::Path(start("*")))),
            "" | "str" if path == "/" => {
                return Err(ConditionError::OnlyRoot);
            }
            "" | "str" if path.ends_with('/') => {
                return Err(ConditionError::ExactFolder(path.clone()));
            }
            "" | "str" => any.push(Formula::exact_path(start(""))),
            other => {
                return Err(ConditionError::PathMethod(other.to_owned()));
            }
        }
    }
    if any.is_empty() { Err(ConditionError::NoPath) } else { Ok(Formula::Any(any)) }
}
