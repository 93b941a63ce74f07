//! Variables of the environment in paths: where they are read, and what no message shows.

use std::ffi::OsString;
use std::path::Path;

use super::*;
use crate::machine::Machine;

/// A machine with some variables.
struct Variables;

impl Machine for Variables {
    fn is_folder(&self, _path: &Path) -> bool {
        false
    }

    fn variable(&self, name: &str) -> Option<OsString> {
        match name {
            "CREDENTIALS_DIRECTORY" => Some("/run/credentials/handfast.service".into()),
            "KEY_1" => Some("/run/web.key".into()),
            "PASSWORD" => Some("hunter2".into()),
            "EMPTY" => Some("".into()),
            _ => None,
        }
    }
}

fn parsed(text: &str) -> Parsed {
    crate::file::read("/etc/handfast/handfast.toml", text, &Variables).parsed
}

#[test]
fn the_path_of_a_secret_may_begin_with_a_variable() {
    let text = "[admin]\ntoken-file = \"${CREDENTIALS_DIRECTORY}/token\"\n[[service]]\nname = \"web\"\nlisten = \"127.0.0.1:8443\"\n\
                backend = \"10.0.0.9:80\"\ncertificate = \"${CREDENTIALS_DIRECTORY}/web.pem\"\nkey = \"${KEY_1}\"\n";
    let (config, _) = parsed(text).unwrap_or_else(|problems| panic!("{problems:#?}"));
    let in_folder = |name: &str| PathBuf::from("/run/credentials/handfast.service").join(name);
    assert_eq!(config.admin_token_file, Some(in_folder("token")));
    let tls = config.services[0].tls.as_ref().expect("it has TLS");
    let expected = CertificateEntry::File {
        certificate: in_folder("web.pem"),
        key: Some("/run/web.key".into()),
        ocsp: None,
    };
    assert_eq!(tls.certificates, [expected]);
    // The sandbox reaches what is named.
    assert!(config.places.paths().any(|path| *path == in_folder("web.pem")));
}

#[test]
fn a_variable_that_cannot_be_used_is_named_and_its_value_is_not() {
    let allowed = "; allowed: one variable at the beginning, as in `${CREDENTIALS_DIRECTORY}/web.key`";
    for (value, expected) in [
        ("${NONE}/a", "`key` needs the variable `NONE`, which is not set; hint: set it for the process that serves, such as by `Environment=` in its unit".to_owned()),
        ("${EMPTY}/a", "`key` needs the variable `EMPTY`, which is not set; hint: set it for the process that serves, such as by `Environment=` in its unit".to_owned()),
        ("${PASSWORD}", "`key` needs an absolute path in the variable `PASSWORD`, which has another value".to_owned()),
        ("/a/${KEY_1}", format!("`key` has a variable that is not at its beginning{allowed}")),
        ("${KEY_1}${KEY_1}", format!("`key` has a variable that is not at its beginning{allowed}")),
        ("${KEY_1", format!("`key` has a variable that is not closed by `}}`{allowed}")),
        ("${KEY-1}", format!("`key` has a variable whose name has other characters than letters, digits and `_`{allowed}")),
        ("${}", format!("`key` has a variable whose name has other characters than letters, digits and `_`{allowed}")),
    ] {
        let problems = parsed(&format!("{WEB}key = \"{value}\"\n")).expect_err(value);
        let [problem] = &problems[..] else { panic!("{value}: {problems:#?}") };
        assert_eq!(problem.to_string(), format!("/etc/handfast/handfast.toml:6:7: {expected}"));
    }
    let problems = parsed(&WEB.replace("site.pem", "${CREDENTIALS}/a")).expect_err("it is not set");
    assert!(
        problems[0].to_string().contains("5:15: `certificate` needs the variable `CREDENTIALS`"),
        "{problems:#?}"
    );
    let problems =
        parsed("[admin]\ntoken-file = \"${CREDENTIALS_DIRECTORY_}\"\n").expect_err("it is not set");
    assert!(
        problems.iter().any(|problem| problem.what.starts_with("`token-file` needs the variable")),
        "{problems:#?}"
    );
}

#[test]
fn a_variable_in_any_other_key_stays_as_it_is() {
    let text = format!("[process]\nweak-keys = \"${{KEY_1}}\"\n[access-log]\nto = \"./${{KEY_1}}\"\n{WEB}");
    let (config, _) = parsed(&text).unwrap_or_else(|problems| panic!("{problems:#?}"));
    assert_eq!(config.process.weak_keys, [PathBuf::from("/etc/handfast/${KEY_1}")]);
    assert_eq!(config.access_log, AccessLog::File("/etc/handfast/./${KEY_1}".into()));
    let path = WEB.replace("site.pem", "$KEY_1/a$$b.pem");
    let (config, _) = parsed(&path).unwrap_or_else(|problems| panic!("{problems:#?}"));
    assert!(config.places.paths().any(|path| path == Path::new("/etc/handfast/$KEY_1/a$$b.pem")));
}
