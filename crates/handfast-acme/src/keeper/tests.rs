//! Requests of a process that may be in an attacker's hands.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};

use super::*;

struct Place(tempfile::TempDir);

impl Place {
    fn new() -> Self {
        let folder = tempfile::tempdir().expect("a temporary folder");
        fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o700)).expect("it is ours");
        Self(folder)
    }

    fn keeper(&self) -> Keeper {
        Keeper::open(self.0.path()).expect("it is ours alone")
    }

    fn files(&self) -> Vec<String> {
        let entries = fs::read_dir(self.0.path()).expect("it is there").flatten();
        entries.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect()
    }
}

fn send_request(keeper: &Keeper, request: &KeyRequest) -> Result<String, String> {
    let answer = keeper.answer(&serde_json::to_vec(request).expect("JSON"));
    answer.map(|bytes| String::from_utf8_lossy(&bytes).into_owned()).map_err(|error| error.to_string())
}

fn make(keeper: &Keeper, name: &str, keeps: Option<&str>) -> Result<String, String> {
    send_request(keeper, &KeyRequest::Make { name: name.to_owned(), keeps: keeps.map(str::to_owned) })
}

#[test]
fn the_key_in_use_stays_and_what_failed_orders_left_goes() {
    let place = Place::new();
    let keeper = place.keeper();
    let used = make(&keeper, "a.example.org", None).expect("it is made");
    make(&keeper, "b.example.org", None).expect("it is made");
    for _ in 0..3 {
        make(&keeper, "a.example.org", Some(&used)).expect("it is made");
    }
    assert_eq!(place.files().len(), 3, "{:?}", place.files());
    assert!(place.files().contains(&format!("a.example.org~{used}.pem")));
    for _ in 0..3 * MAX_KEYS_PER_NAME {
        make(&keeper, "a.example.org", None).expect("it is made");
    }
    assert!(place.files().len() <= MAX_KEYS_PER_NAME + 1, "{}", place.files().len());
}

#[test]
fn a_request_for_a_certificate_is_for_the_name_of_the_key() {
    let place = Place::new();
    let keeper = place.keeper();
    let id = make(&keeper, "*.example.org", None).expect("it is made");
    let csr = |name: &str, id: &str| {
        keeper.answer(
            &serde_json::to_vec(&KeyRequest::Csr { name: name.to_owned(), id: id.to_owned() }).expect("JSON"),
        )
    };
    let der = csr("*.example.org", &id).expect("the key is there");
    let parsed = rcgen::CertificateSigningRequestParams::from_der(&der.into()).expect("it is signed");
    assert_eq!(parsed.params.subject_alt_names.len(), 1);
    assert!(csr("other.example.org", &id).is_err());
}

#[test]
fn no_request_leads_out_of_the_folder() {
    let (place, outside) = (Place::new(), Place::new());
    let keeper = place.keeper();
    for name in ["../a", "a/b", "", ".", "a\0b"] {
        make(&keeper, name, None).expect_err(name);
    }
    for id in
        ["../../etc/passwd", "", "00000000000000000000000000000000/", "0000000000000000000000000000000G"]
    {
        let request = KeyRequest::Csr { name: "a.example.org".to_owned(), id: id.to_owned() };
        assert!(send_request(&keeper, &request).is_err_and(|why| why.contains("no ID")), "{id}");
        assert!(make(&keeper, "a.example.org", Some(id)).is_err(), "{id}");
    }
    let account =
        |directory: &str| send_request(&keeper, &KeyRequest::Account { directory: directory.to_owned() });
    account("https://ca.example/../../dir").expect("it is one name");
    assert!(account("").is_err() && account(&"a".repeat(300)).is_err());
    // A link in the place of a file is not followed.
    let secret = outside.0.path().join("secret");
    File::create(&secret).and_then(|mut file| file.write_all(b"{\"key\":\"\"}")).expect("it is ours");
    symlink(&secret, place.0.path().join("account_ca.json")).expect("it is ours");
    assert!(account("ca").is_err_and(|why| why.starts_with("read account_ca.json")));
    assert!(keeper.answer(b"{\"Read\":{\"path\":\"/etc/passwd\"}}").is_err());
    // A folder that others can enter is not used, nor one that a link leads to.
    symlink(outside.0.path(), place.0.path().join("link")).expect("it is ours");
    assert!(Keeper::open(&place.0.path().join("link")).is_err());
    fs::set_permissions(outside.0.path(), fs::Permissions::from_mode(0o750)).expect("it is ours");
    assert!(Keeper::open(outside.0.path()).is_err());
}

#[test]
fn an_account_has_one_key_which_no_reader_of_certificates_finds() {
    let place = Place::new();
    let keeper = place.keeper();
    let sign = |header: &str| {
        send_request(
            &keeper,
            &KeyRequest::Sign {
                directory: "https://ca.example/dir".to_owned(),
                header: header.to_owned(),
                payload: String::new(),
            },
        )
    };
    let header = r#"{"alg":"ES256","kid":"k","nonce":"n","url":"u"}"#;
    assert!(sign(header).is_err(), "no key is made to sign");
    let account_request =
        || send_request(&keeper, &KeyRequest::Account { directory: "https://ca.example/dir".to_owned() });
    let jwk = account_request().expect("it is made");
    assert_eq!(account_request(), Ok(jwk));
    sign(header).expect("it is there");
    let held = handfast_pki::apart::Held::default();
    for file in place.files() {
        held.inspect(&place.0.path().join(file));
    }
    assert_eq!(held.count(), 0, "a key that the request to read loads signs anything");
    for number in 0..2 * MAX_ACCOUNTS {
        let _ = send_request(&keeper, &KeyRequest::Account { directory: number.to_string() });
    }
    assert_eq!(place.files().len(), MAX_ACCOUNTS);
}
