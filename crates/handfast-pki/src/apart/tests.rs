//! Keys that are held elsewhere, with the way there in memory.

use rustls::{OtherError, SignatureScheme};

use super::holder::schemes_of;
use super::*;
use crate::key::Key;
use crate::load::{Loaded, Source, changed, load_from};
use crate::weak::Lists;
use handfast_testkit::maker::{Folder, Maker};

/// Another process, as far as one test can be one: nothing but bytes goes there and back.
#[derive(Debug, Default)]
pub(crate) struct Elsewhere {
    pub(crate) held: Held,
    found: RwLock<Vec<(std::path::PathBuf, Vec<KeyId>)>>,
    silent: std::sync::atomic::AtomicBool,
}

impl Elsewhere {
    fn falls_silent(&self) {
        self.silent.store(true, std::sync::atomic::Ordering::Relaxed);
    }

    fn is_silent(&self) -> bool {
        self.silent.load(std::sync::atomic::Ordering::Relaxed)
    }
}

impl Holder for Elsewhere {
    fn inspect(&self, path: &Path) -> io::Result<Vec<u8>> {
        if self.is_silent() { Err(io::Error::other("silent")) } else { Ok(self.held.inspect(path)) }
    }

    fn stamp(&self, path: &Path) -> io::Result<Vec<u8>> {
        if self.is_silent() { Err(io::Error::other("silent")) } else { Ok(self.held.stamp(path)) }
    }

    fn found(&self, path: &Path, keys: &[KeyId]) {
        self.found.write().unwrap().push((path.to_path_buf(), keys.to_vec()));
    }

    fn sign(&self, key: &KeyId, scheme: u16, message: &[u8]) -> Result<Vec<u8>, Unavailable> {
        if self.is_silent() {
            return Err(Unavailable("silent".into()));
        }
        self.held.sign(key, scheme, message).map_err(|error| Unavailable(error.to_string()))
    }
}

fn loaded(folder: &Folder, elsewhere: &Arc<Elsewhere>) -> Loaded {
    let holder: Arc<dyn Holder> = Arc::clone(elsewhere) as _;
    let now = std::time::SystemTime::UNIX_EPOCH + std::time::Duration::from_secs(1_793_534_400);
    load_from(&[Source::Folder(folder.path().into())], &Lists::default(), now, Some(&holder))
}

#[test]
fn every_kind_of_key_chooses_and_signs_as_it_would_here() {
    let folder = Folder::new();
    folder.openssl(
        "req -x509 -newkey rsa:2048 -nodes -keyout rsa.key -out rsa.crt -days 30000 -subj /CN=r.test",
    );
    folder.openssl("req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -keyout ec.key -out ec.crt -days 30000 -subj /CN=e.test");
    folder.openssl("req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-384 -nodes -keyout ec3.key -out ec3.crt -days 30000 -subj /CN=e3.test");
    folder
        .openssl("req -x509 -newkey ed25519 -nodes -keyout ed.key -out ed.crt -days 30000 -subj /CN=d.test");
    let elsewhere = Arc::<Elsewhere>::default();
    let apart = loaded(&folder, &elsewhere);
    let here = crate::load::load(
        &[Source::Folder(folder.path().into())],
        &Lists::default(),
        std::time::SystemTime::now(),
    );
    assert_eq!((apart.certificates.len(), elsewhere.held.count()), (4, 4), "{:?}", apart.findings);
    for (apart, here) in apart.certificates.iter().zip(&here.certificates) {
        let (apart, here) = (&apart.certified().key, &here.certified().key);
        let mut left = here_schemes(here);
        assert_eq!(left, here_schemes(apart));
        while let Some(scheme) = left.pop() {
            let signed = apart.choose_scheme(&[scheme]).unwrap().sign(b"a message").unwrap();
            let length = here.choose_scheme(&[scheme]).unwrap().sign(b"a message").unwrap().len();
            assert!(signed.len().abs_diff(length) < 8, "{scheme:?}");
        }
        assert!(apart.choose_scheme(&[SignatureScheme::ED448]).is_none());
    }
}

fn here_schemes(key: &Arc<dyn SigningKey>) -> Vec<SignatureScheme> {
    let key = Key { signing: Arc::clone(key), public_key: Box::default() };
    schemes_of(&key)
}

#[test]
fn nothing_of_the_key_travels() {
    let folder = Folder::new();
    let made = Maker::new(&["a.test"]).self_signed();
    let path = folder.put("a.pem", made.both());
    let answer = Held::default().inspect(&path);
    let secret = made.key.serialize_der();
    // The scalar of a P-256 key is somewhere in its PKCS #8; no eight bytes of that are in the answer but those of the public key.
    let public = made.key.public_key_raw();
    let is_in = |bytes: &[u8], window: &[u8]| bytes.windows(8).any(|part| part == window);
    let scalar = &secret[36..68];
    assert!(!is_in(public, &scalar[..8]));
    assert!(scalar.windows(8).all(|window| !is_in(&answer, window)), "the answer holds a part of the key");
    assert!(answer.windows(8).any(|window| is_in(public, window)), "and the public key");
    assert!(is_in(&secret, &scalar[..8]), "the search can find");
}

#[test]
fn a_holder_that_has_forgotten_a_key_reports_it_and_has_it_again_after_another_look() {
    let folder = Folder::new();
    let path = folder.put("a.pem", Maker::new(&["a.test"]).self_signed().both());
    let elsewhere = Arc::<Elsewhere>::default();
    let certificate = loaded(&folder, &elsewhere).certificates.remove(0);
    let id = certificate.key_id().unwrap();
    assert_eq!(*elsewhere.found.read().unwrap(), [(path.clone(), vec![id])]);
    let signer =
        certificate.certified().key.choose_scheme(&[SignatureScheme::ECDSA_NISTP256_SHA256]).unwrap();
    signer.sign(b"m").unwrap();
    elsewhere.held.forget(&id);
    let error = signer.sign(b"m").unwrap_err();
    let rustls::Error::Other(OtherError(failure)) = error else { panic!("{error}") };
    assert!(failure.is::<Unavailable>(), "{failure}");
    assert!(failure.to_string().contains("does not have this key"), "{failure}");
    elsewhere.held.inspect(&path);
    signer.sign(b"m").unwrap();
    let wrong = elsewhere.held.sign(&id, SignatureScheme::RSA_PKCS1_SHA1.into(), b"m").unwrap_err();
    assert!(wrong.to_string().contains("does not sign in this scheme"), "{wrong}");
}

#[test]
fn a_holder_that_does_not_answer_is_an_error_of_each_file() {
    let folder = Folder::new();
    folder.put("a.pem", Maker::new(&["a.test"]).self_signed().both());
    let elsewhere = Arc::<Elsewhere>::default();
    elsewhere.falls_silent();
    let loaded = loaded(&folder, &elsewhere);
    assert!(loaded.has_errors() && loaded.certificates.is_empty());
    assert!(
        loaded.findings.iter().any(|finding| finding.message.contains("silent")),
        "{:?}",
        loaded.findings
    );
    let file = folder.path().join("a.pem");
    let of_file: Vec<_> = loaded.files_read.into_iter().filter(|(path, _)| *path == file).collect();
    assert_eq!(of_file.len(), 1);
    assert!(changed(&of_file, None), "it is read again, although it is as it was");
}

proptest::proptest! {
    #[test]
    fn no_answer_panics(cut in 0_usize..900, place in 0_usize..900, value in proptest::prelude::any::<u8>()) {
        static ANSWER: std::sync::OnceLock<Vec<u8>> = std::sync::OnceLock::new();
        let answer = ANSWER.get_or_init(|| {
            let folder = Folder::new();
            Held::default().inspect(&folder.put("a.pem", Maker::new(&["a.test"]).self_signed().both()))
        });
        let mut answer = answer[..answer.len().min(cut)].to_vec();
        if let Some(byte) = answer.get_mut(place) {
            *byte = value;
        }
        let holder: Arc<dyn Holder> = Arc::<Elsewhere>::default();
        let _ = wire::decode(&answer, Path::new("a.pem"), &holder);
    }
}

#[test]
fn files_that_cannot_be_seen_here_are_requested() {
    let folder = Folder::new();
    let path = folder.put("a.pem", Maker::new(&["a.test"]).self_signed().both());
    let elsewhere = Arc::<Elsewhere>::default();
    let read = loaded(&folder, &elsewhere).files_read;
    assert!(!changed(&read, Some(&*elsewhere)));
    // A name that only the other process finds there: here it is looked for in a folder that is not there.
    let hidden = Hidden { within: folder.path().into(), elsewhere: Elsewhere::default() };
    let name = std::path::PathBuf::from("/none/a.pem");
    let seen = vec![(name.clone(), FileStamp::of(&path))];
    assert!(!changed(&seen, Some(&hidden)), "as it was, as the other process sees it");
    assert!(changed(&seen, None), "no process sees it");
    folder.put("a.pem", "something else");
    assert!(changed(&seen, Some(&hidden)));
    hidden.elsewhere.falls_silent();
    assert!(!changed(&seen, Some(&hidden)), "not as far as is known");
    assert!(
        changed(&[(path, FileStamp::default())], Some(&hidden)),
        "what is visible here is not requested from the holder"
    );
}

/// Sees files of a folder by names under which they are not to be seen here.
#[derive(Debug)]
struct Hidden {
    within: std::path::PathBuf,
    elsewhere: Elsewhere,
}

impl Holder for Hidden {
    fn inspect(&self, path: &Path) -> io::Result<Vec<u8>> {
        self.elsewhere.inspect(path)
    }

    fn stamp(&self, path: &Path) -> io::Result<Vec<u8>> {
        self.elsewhere.stamp(&self.within.join(path.file_name().unwrap_or_default()))
    }

    fn found(&self, path: &Path, keys: &[KeyId]) {
        self.elsewhere.found(path, keys);
    }

    fn sign(&self, key: &KeyId, scheme: u16, message: &[u8]) -> Result<Vec<u8>, Unavailable> {
        self.elsewhere.sign(key, scheme, message)
    }
}
