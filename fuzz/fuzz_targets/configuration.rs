//! Any text as a configuration file: it is read or refused with reasons; every reason has a place in the file and can be
//! shown; what is read can be explained.
#![no_main]

use handfast_config::{Place, Problem, explain, parse, render};
use libfuzzer_sys::fuzz_target;

const FILE: &str = "folder/handfast.toml";

fuzz_target!(|text: &str| {
    let problems = match parse(FILE, text, &|path| path.extension().is_none()) {
        Ok((config, warnings)) => {
            assert!(!warnings.iter().any(Problem::is_error));
            assert!(!config.services.is_empty());
            assert!(!explain(&config, &[]).is_empty());
            warnings
        }
        Err(problems) => {
            assert!(problems.iter().any(Problem::is_error));
            problems
        }
    };
    for problem in &problems {
        let Place::Text { line, span, text: there, .. } = &problem.place else {
            panic!("{problem:?} has no place")
        };
        assert_eq!(&text[span.clone()], there);
        assert_eq!(*line, text[..span.start].matches('\n').count() + 1);
        assert!(!problem.to_string().contains(char::is_control));
    }
    let shown = render(&problems, &[(FILE, text)], false);
    assert!(!shown.contains(|character: char| character != '\n' && character.is_control()), "{shown:?}");
});
