//! Location of private keys: in this process, or in the key process, which receives the operations that need them
//! (`keeper.rs`).
//!
//! In: names, directories of issuers. Out: requests for certificates, signers of accounts.

use std::path::PathBuf;
use std::sync::Arc;

use handfast_pki::apart::Holder;
use rcgen::KeyPair;

use crate::error::Error;
use crate::jws::{AccountSigner, Jws, JwsError};
use crate::keeper::{KeyRequest, certificate_request};
use crate::name::Name;

/// Keys that are not in this process.
#[derive(Clone, Debug)]
pub struct KeysApart {
    /// The folder of the keys.
    pub(crate) folder: PathBuf,
    /// The key process; `None`: this process only looks at the store.
    pub(crate) holder: Option<Arc<dyn Holder>>,
}

impl KeysApart {
    fn send_request(&self, request: &KeyRequest) -> Result<Vec<u8>, Error> {
        let holder = self.holder.as_ref().ok_or(Error::NoKeyProcess)?;
        let request = serde_json::to_vec(request).map_err(Error::key)?;
        holder.keep(&request).map_err(Error::key)
    }

    fn request_text(&self, request: &KeyRequest) -> Result<String, Error> {
        let text = String::from_utf8(self.send_request(request)?);
        text.map_err(Error::key)
    }
}

/// The key of a certificate that is ordered.
#[derive(Debug)]
pub(crate) enum OrderKey {
    Here(Box<KeyPair>),
    Apart { keys: KeysApart, id: String },
}

/// Text that a pending order has in place of a key.
const APART: &str = "in the key process: ";

impl OrderKey {
    /// Makes a key. `in_use`: the ID of the key of the present certificate.
    pub(crate) fn make(keys: Option<&KeysApart>, name: &Name, in_use: Option<String>) -> Result<Self, Error> {
        let Some(keys) = keys else {
            let key = KeyPair::generate().map_err(Error::key)?;
            return Ok(Self::Here(Box::new(key)));
        };
        let id = keys.request_text(&KeyRequest::Make { name: name.to_string(), keeps: in_use })?;
        Ok(Self::Apart { keys: keys.clone(), id })
    }

    /// The key of an order that was begun earlier; `None`: it is elsewhere, or cannot be read.
    pub(crate) fn stored(keys: Option<&KeysApart>, text: &str) -> Option<Self> {
        match (keys, text.strip_prefix(APART)) {
            (Some(keys), Some(id)) => Some(Self::Apart { keys: keys.clone(), id: id.to_owned() }),
            (None, None) => KeyPair::from_pem(text).ok().map(|key| Self::Here(Box::new(key))),
            _ => None,
        }
    }

    /// To be stored with the order.
    pub(crate) fn to_store(&self) -> String {
        match self {
            Self::Here(key) => key.serialize_pem(),
            Self::Apart { id, .. } => format!("{APART}{id}"),
        }
    }

    /// Returns the text before the chain in the file that is served.
    pub(crate) fn before_chain(&self) -> String {
        match self {
            Self::Here(key) => key.serialize_pem(),
            Self::Apart { .. } => String::new(),
        }
    }

    /// The request for a certificate (CSR), DER.
    pub(crate) fn request(&self, name: &Name) -> Result<Vec<u8>, Error> {
        match self {
            Self::Here(key) => certificate_request(name, key).map_err(Error::key),
            Self::Apart { keys, id } => {
                keys.send_request(&KeyRequest::Csr { name: name.to_string(), id: id.clone() })
            }
        }
    }
}

/// The account key in the key process.
#[derive(Debug)]
pub(crate) struct RemoteAccount {
    keys: KeysApart,
    directory: String,
    jwk: String,
}

impl RemoteAccount {
    /// The account with the issuer of a directory; its key is made where there is none.
    pub(crate) fn open(keys: &KeysApart, directory: &str) -> Result<Self, Error> {
        let jwk = keys.request_text(&KeyRequest::Account { directory: directory.to_owned() })?;
        Ok(Self { keys: keys.clone(), directory: directory.to_owned(), jwk })
    }
}

impl AccountSigner for RemoteAccount {
    fn jwk(&self) -> &str {
        &self.jwk
    }

    fn sign(&self, header: &str, payload: &str) -> Result<Jws, JwsError> {
        let request = KeyRequest::Sign {
            directory: self.directory.clone(),
            header: header.to_owned(),
            payload: payload.to_owned(),
        };
        let signed =
            self.keys.send_request(&request).map_err(|error| JwsError::KeyProcess(Box::new(error)))?;
        Ok(serde_json::from_slice(&signed)?)
    }
}
