//! Any text as a rule about clients' certificates: it is refused with a reason, or is what it was written as, however often it is read.
#![no_main]

use handfast_pki::rules::Rule;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &str| {
    match Rule::parse(text) {
        Ok(rule) => {
            assert_eq!(rule.to_string(), text);
            assert_eq!(Rule::parse(&rule.to_string()), Ok(rule));
            // What a rule is about is part of it: nothing is taken for the kind that happens to fit.
            let (kind, rest) = text.split_once(':').expect("a rule says what it is about");
            assert!(!rest.is_empty());
            assert!(
                ["cn", "subject", "dns", "ip", "uri", "spiffe", "email", "pin"].contains(&kind)
                    || ["insecure-dns-or-cn", "insecure-email-or-subject"].contains(&kind),
                "{text:?}"
            );
        }
        Err(problem) => assert!(!problem.to_string().is_empty()),
    }
});
