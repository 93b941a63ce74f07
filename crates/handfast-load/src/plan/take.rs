//! Values that are taken from answers, for later requests on the same connection: `token=json:/access_token`.
//!
//! In: text as it is typed, or all requests of a plan. Out: a [`Take`] and the request it belongs to, or what is wrong.

use handfast_http::http1::is_token;

use super::error::PlanError;
use super::{Body, Request, Source, Take};

/// Reads `[N:]NAME=header:HEADER` or `[N:]NAME=json:/POINTER` (RFC 6901): the place of the request, from 0, and the value.
///
/// **Errors**: what is wrong with it.
pub fn parse(text: &str) -> Result<(usize, Take), PlanError> {
    let wrong = || PlanError::Take(text.to_owned());
    let (name, source) = text.split_once('=').ok_or_else(wrong)?;
    let (number, name) = name.split_once(':').unwrap_or(("1", name));
    let number = number.parse::<usize>().ok().and_then(|number| number.checked_sub(1)).ok_or_else(wrong)?;
    let letter = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
    if name.is_empty() || !name.chars().all(letter) {
        return Err(wrong());
    }
    let from = match source.split_once(':') {
        Some(("header", header)) if is_token(header.as_bytes()) => {
            Source::Header(header.to_ascii_lowercase())
        }
        Some(("json", pointer)) if pointer.is_empty() || pointer.starts_with('/') => {
            Source::Json(pointer.to_owned())
        }
        _ => return Err(wrong()),
    };
    Ok((number, Take { name: name.to_owned(), from }))
}

/// Returns true if a request has `{NAME}` in its path, a header or its body.
fn uses(request: &Request, name: &str) -> bool {
    let mark = format!("{{{name}}}");
    let in_body = matches!(&request.body, Some(Body::Text(text)) if text.contains(&mark));
    let mut values = request.headers.iter().filter_map(|header| header.value.as_deref());
    in_body || request.path.contains(&mark) || values.any(|value| value.contains(&mark))
}

/// Mistakes in the values that the requests take and use.
pub fn mistakes(requests: &[Request], in_order: bool) -> Vec<PlanError> {
    let mut wrong = Vec::new();
    let mut names = Vec::new();
    for (place, request) in requests.iter().enumerate() {
        for Take { name, .. } in &request.take {
            if names.contains(name) {
                wrong.push(PlanError::Twice(name.clone()));
            }
            names.push(name.clone());
            let (until, after) = requests.split_at(place + 1);
            if let Some(early) = until.iter().find(|request| uses(request, name)) {
                wrong.push(PlanError::UsedTooEarly { name: name.clone(), request: early.name() });
            } else if !after.iter().any(|request| uses(request, name)) && !in_a_file(after) {
                wrong.push(PlanError::NeverUsed(name.clone()));
            }
        }
    }
    if !in_order && !names.is_empty() {
        wrong.push(PlanError::TakeWithoutOrder);
    }
    if in_order && requests.iter().any(|request| request.weight != 1) {
        wrong.push(PlanError::WeightInOrder);
    }
    wrong
}

/// Returns true if a body is in a file, which is not read yet.
fn in_a_file(requests: &[Request]) -> bool {
    requests.iter().any(|request| matches!(request.body, Some(Body::File(_))))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_has_a_request_a_name_and_a_source() {
        let take = |name: &str, from| Take { name: name.into(), from };
        assert_eq!(parse("t=header:X-Token"), Ok((0, take("t", Source::Header("x-token".into())))));
        assert_eq!(parse("3:a_b=json:/a/0"), Ok((2, take("a_b", Source::Json("/a/0".into())))));
        assert_eq!(parse("all=json:"), Ok((0, take("all", Source::Json(String::new())))));
        for text in [
            "",
            "t",
            "t=",
            "t=x",
            "t=header:",
            "t=header:a b",
            "t=json:a",
            "=json:/a",
            "0:t=json:/a",
            "a b=json:/a",
            "x:t=json:/a",
        ] {
            assert!(parse(text).is_err(), "{text}");
        }
    }

    #[test]
    fn a_value_is_taken_before_it_is_used() {
        let request = |path: &str, takes: &[&str]| Request {
            path: path.into(),
            take: takes.iter().map(|text| parse(text).expect("good").1).collect(),
            ..Request::default()
        };
        let wrong = |requests: &[Request], in_order| {
            let wrong = mistakes(requests, in_order);
            wrong.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n")
        };
        let good = [request("/a", &["t=json:/t"]), request("/b/{t}", &[])];
        assert_eq!(wrong(&good, true), "");
        assert!(wrong(&good, false).contains("--in-order"));
        let early = [request("/a/{t}", &["t=json:/t"]), request("/{t}", &[])];
        assert!(
            wrong(&early, true).contains("`{t}` is used by GET /a/{t} before it is taken"),
            "{}",
            wrong(&early, true)
        );
        assert!(wrong(&[request("/a", &["t=json:/t"]), request("/b", &[])], true).contains("never used"));
        let twice = [request("/a", &["t=json:/t", "t=json:/u"]), request("/{t}", &[])];
        assert!(wrong(&twice, true).contains("`t` is given twice"));
        let mut weighted = good.clone();
        weighted[0].weight = 2;
        assert!(wrong(&weighted, true).contains("weights"));
    }
}
