//! Compression of a response: whether it is compressed for this client, and the head that it has then.
//!
//! In: the settings of the route, the request, and the head of the response. Out: pure decisions. `client/compressing.rs` carries them out.

use std::cell::Cell;
use std::fmt;
use std::rc::Rc;

use handfast_cache::CodedFiller;
use handfast_config::model::Compression;
use handfast_http::content_coding::{
    AcceptedCodings, ContentCoding, has_weak_form_alone, varies_by_coding, weak_tag,
};
use handfast_http::http1::{ResponseHead, Version, WrittenHead, tokens};

use crate::requests::decide::gate::Routes;
use crate::requests::decide::rules::RequestFacts;

/// Fields that have a checksum or a signature of the bytes of a response: the client could not verify others (RFC 9530 §3, RFC 9421).
const CHECKSUMS: [&str; 5] = ["content-digest", "repr-digest", "digest", "content-md5", "signature-input"];
/// Its own framing, in which messages are compressed one by one.
const GRPC: &[u8] = b"application/grpc";

/// Part of a request in the compression of its response.
pub(crate) struct CompressionPlan {
    settings: Rc<Compression>,
    /// The coding for this client and its level; `None`: it receives what the backend sends.
    pub(crate) coding: Option<(ContentCoding, u8)>,
    /// `If-None-Match`.
    known_tags: Vec<u8>,
    /// Place in a cache for the coded content of this response.
    keeps: Cell<Option<CodedFiller>>,
}

/// Decision about a response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Judgement {
    /// It is sent as it is.
    Untouched,
    /// It is sent as it is, and another client may get it compressed.
    Varies,
    /// It is compressed.
    Coded(ContentCoding, u8),
    /// The client has it, compressed.
    Unchanged,
}

impl fmt::Debug for CompressionPlan {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("CompressionPlan").field("coding", &self.coding).finish_non_exhaustive()
    }
}

impl CompressionPlan {
    /// `None`: the route compresses nothing, or not for this client.
    pub(crate) fn new(facts: &RequestFacts<'_>, routes: &Routes<'_>) -> Option<Box<Self>> {
        let settings = routes.route.compression.as_ref()?;
        // A backend may read the path as that of a route whose responses are not to be compressed.
        let is_settled = routes.others_are(|other| other.compression.is_some());
        let has_secrets = facts.connection.facts.client_subject.is_some();
        if !is_settled || (has_secrets && !settings.with_secrets) {
            return None;
        }
        let head = facts.head;
        // HTTP/1.0 has no end of a message but that of its connection, so its abort could look complete.
        let is_possible = head.version != Version::Http10 && !is_no_transform(head.values("cache-control"));
        let coding = is_possible.then(|| {
            let accepted = AcceptedCodings::parse(head.values("accept-encoding"));
            accepted.best(settings.codings.iter().map(|(coding, _)| *coding))
        });
        let level = |coding| settings.codings.iter().find(|(known, _)| *known == coding).copied();
        let known_tags: Vec<&[u8]> = head.values("if-none-match").collect();
        Some(Box::new(Self {
            settings: Rc::clone(settings),
            coding: coding.flatten().and_then(level),
            known_tags: known_tags.join(&b","[..]),
            keeps: Cell::new(None),
        }))
    }

    /// Keeps the coded content of this response, if it is coded.
    pub(crate) fn keep_in(&self, filler: CodedFiller) {
        self.keeps.set(Some(filler));
    }

    /// Returns the place where coded content is kept.
    pub(crate) fn take_filler(&self) -> Option<CodedFiller> {
        self.keeps.take()
    }

    /// Decides about a final response. `is_empty`: no content follows, and none is left out as that of HEAD is.
    pub(crate) fn judge(&self, head: &ResponseHead<'_>, is_empty: bool) -> Judgement {
        if head.status == 304 {
            let has_coded = |tag| has_weak_form_alone(&self.known_tags, tag);
            return if head.values("etag").any(has_coded) {
                Judgement::Unchanged
            } else {
                Judgement::Untouched
            };
        }
        if !self.can_be_coded(head) {
            return Judgement::Untouched;
        }
        match self.coding {
            Some((coding, level)) if !is_empty => Judgement::Coded(coding, level),
            _ => Judgement::Varies,
        }
    }

    /// Returns true if a response is compressed for clients that accept it.
    fn can_be_coded(&self, head: &ResponseHead<'_>) -> bool {
        let Compression { types, min_size, with_secrets, .. } = &*self.settings;
        // Without content, or with a part of it, or with the difference to another one.
        let has_all = head.status >= 200 && !matches!(head.status, 204 | 205 | 206 | 226 | 304);
        let is_large = head.content_length.is_none_or(|length| length >= *min_size);
        if !has_all || !is_large {
            return false;
        }
        let has = |name: &str| head.values(name).next().is_some();
        let mut content_types = head.values("content-type");
        let is_type = content_types.next().is_some_and(|value| types.fit(value) && !is_grpc(value));
        is_type
            && content_types.next().is_none()
            && !has("content-encoding")
            && !has("content-range")
            && (*with_secrets || !has("set-cookie"))
            && !is_no_transform(head.values("cache-control"))
            && !CHECKSUMS.into_iter().any(has)
            && !head.values("trailer").flat_map(tokens).any(is_checksum)
    }
}

impl Judgement {
    /// Returns the head for the client; `room` is for its text and fields, and empty.
    pub(crate) fn apply<'r, 'h: 'r>(
        self,
        head: &ResponseHead<'h>,
        room: &'r mut WrittenHead,
    ) -> ResponseHead<'r> {
        let weak = match self {
            Self::Untouched => return *head,
            Self::Varies => None,
            Self::Coded(..) | Self::Unchanged => head.values("etag").next().and_then(weak_tag),
        };
        let coding = if let Self::Coded(coding, _) = self { Some(coding) } else { None };
        let mut added: Vec<(&str, &[u8])> = Vec::with_capacity(3);
        if !varies_by_coding(head) {
            added.push(("Vary", b"Accept-Encoding"));
        }
        added.extend(coding.map(|coding| ("Content-Encoding", coding.name().as_bytes())));
        added.extend(weak.as_deref().map(|tag| ("ETag", tag)));
        let drops = |name: &[u8]| {
            (weak.is_some() && name.eq_ignore_ascii_case(b"etag"))
                || (coding.is_some() && name.eq_ignore_ascii_case(b"accept-ranges"))
        };
        let changed = head.changed(room, drops, &added);
        if coding.is_some() { changed.without_length() } else { changed }
    }
}

/// Returns true if a trailer field is about bytes that the client does not receive.
pub(crate) fn is_checksum(name: &[u8]) -> bool {
    CHECKSUMS.into_iter().any(|known| name.eq_ignore_ascii_case(known.as_bytes()))
}

fn is_grpc(content_type: &[u8]) -> bool {
    content_type.get(..GRPC.len()).is_some_and(|start| start.eq_ignore_ascii_case(GRPC))
}

/// RFC 9111 §5.2.1.6 and §5.2.2.6.
fn is_no_transform<'v>(cache_control: impl Iterator<Item = &'v [u8]>) -> bool {
    cache_control.flat_map(tokens).any(|directive| directive.eq_ignore_ascii_case(b"no-transform"))
}

#[cfg(test)]
mod tests;
