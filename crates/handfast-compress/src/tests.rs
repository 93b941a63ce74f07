//! Encoders against decoders of the same formats: any content, in any pieces, at every level, whole and cut off.

use std::io::Read;

use handfast_http::content_coding::ContentCoding;
use proptest::prelude::*;

use super::*;

/// Returns the content that a decoder has after these bytes, and whether the end mark came.
fn decoded(coding: ContentCoding, coded: &[u8]) -> (Vec<u8>, bool) {
    let mut content = Vec::new();
    let mut source: Box<dyn Read + '_> = match coding {
        ContentCoding::Gzip => Box::new(flate2::read::GzDecoder::new(coded)),
        ContentCoding::Brotli => Box::new(::brotli::Decompressor::new(coded, 4096)),
        ContentCoding::Zstd => return decoded_zstd(coded),
    };
    let mut piece = [0; 4096];
    loop {
        match source.read(&mut piece) {
            Ok(0) => return (content, true),
            Ok(count) => content.extend_from_slice(&piece[..count]),
            Err(_) => return (content, false),
        }
    }
}

fn decoded_zstd(coded: &[u8]) -> (Vec<u8>, bool) {
    let mut context = zstd_safe::DCtx::create();
    let (mut content, mut input) = (Vec::new(), zstd_safe::InBuffer::around(coded));
    loop {
        let mut piece = Vec::with_capacity(4096);
        let mut output = zstd_safe::OutBuffer::around(&mut piece);
        let left = context.decompress_stream(&mut output, &mut input).expect("what was coded is readable");
        let is_full = output.pos() == 4096;
        content.append(&mut piece);
        if left == 0 || (input.pos() == coded.len() && !is_full) {
            return (content, left == 0);
        }
    }
}

/// Puts content in pieces of these sizes, used in turn, with a flush behind each that has one.
fn coded(coding: ContentCoding, level: u8, content: &[u8], sizes: &[(usize, bool)]) -> Vec<u8> {
    let mut encoder = Encoder::new(coding, level).expect("there is memory");
    let (mut out, mut rest) = (Vec::new(), content);
    for (size, flushes) in sizes.iter().cycle() {
        if rest.is_empty() {
            break;
        }
        let (piece, more) = rest.split_at((*size).clamp(1, rest.len()));
        encoder.put(piece, &mut out).expect("it goes on");
        if *flushes {
            encoder.flush(&mut out).expect("it goes on");
            assert_eq!(
                decoded(coding, &out),
                (content[..content.len() - more.len()].to_vec(), false),
                "{coding:?}"
            );
        }
        rest = more;
    }
    encoder.finish(&mut out).expect("it ends");
    out
}

/// Text that can be compressed, of any length.
fn text(length: usize) -> Vec<u8> {
    let words =
        [b"<li class=\"item\">".as_slice(), b"{\"id\":", b"17", b"function(", b" \n", b"\xc3\xa9", b"\0"];
    let mut random = 1_u32;
    let mut text = Vec::new();
    while text.len() < length {
        random = random.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        text.extend_from_slice(words[(random >> 16) as usize % words.len()]);
    }
    text.truncate(length);
    text
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    /// Bytes and pieces of any kind.
    #[test]
    fn what_is_decoded_is_what_was_put(
        content in proptest::collection::vec(any::<u8>(), 0..4000),
        sizes in proptest::collection::vec((1..600_usize, any::<bool>()), 1..6),
        level in 0..=10_u8,
    ) {
        for coding in ContentCoding::ALL {
            let coded = coded(coding, level, &content, &sizes);
            prop_assert_eq!(decoded(coding, &coded), (content.clone(), true), "{:?}", coding);
        }
    }
}

#[test]
fn long_texts_become_small_at_every_level() {
    let content = text(300_000);
    for coding in ContentCoding::ALL {
        for level in levels(coding) {
            let coded = coded(coding, level, &content, &[(piece(coding), true)]);
            assert_eq!(decoded(coding, &coded), (content.clone(), true), "{coding:?} {level}");
            assert!(coded.len() * 3 < content.len(), "{coding:?} {level}: {}", coded.len());
        }
    }
}

#[test]
fn what_cannot_be_compressed_hardly_grows() {
    let mut random = 7_u64;
    let content: Vec<u8> = std::iter::repeat_with(|| {
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        random as u8
    })
    .take(200_000)
    .collect();
    for coding in ContentCoding::ALL {
        let coded = coded(coding, default_level(coding), &content, &[(piece(coding), false)]);
        assert!(coded.len() < content.len() + 1000, "{coding:?}: {}", coded.len());
        assert_eq!(decoded(coding, &coded), (content.clone(), true), "{coding:?}");
    }
}

#[test]
fn nothing_is_coded_as_a_whole_content_too() {
    for coding in ContentCoding::ALL {
        let coded = coded(coding, default_level(coding), b"", &[(1, false)]);
        assert!(!coded.is_empty(), "{coding:?}");
        assert_eq!(decoded(coding, &coded), (Vec::new(), true), "{coding:?}");
    }
}

#[test]
fn what_is_cut_off_never_looks_complete() {
    let content = text(30_000);
    for coding in ContentCoding::ALL {
        let whole = coded(coding, default_level(coding), &content, &[(2000, true)]);
        for length in (0..whole.len()).step_by(97).chain([whole.len() - 1]) {
            assert!(!decoded(coding, &whole[..length]).1, "{coding:?}: {length} of {}", whole.len());
        }
        assert!(decoded(coding, &whole).1, "{coding:?}");
    }
}

#[test]
fn a_second_flush_has_nothing_to_add() {
    for coding in ContentCoding::ALL {
        let mut encoder = Encoder::new(coding, default_level(coding)).expect("there is memory");
        let mut out = Vec::new();
        encoder.put(b"data: 1\n\n", &mut out).expect("it goes on");
        encoder.flush(&mut out).expect("it goes on");
        let length = out.len();
        encoder.flush(&mut out).expect("it goes on");
        assert!(out.len() <= length + 8, "{coding:?}: {} of {length}", out.len());
        assert_eq!(decoded(coding, &out), (b"data: 1\n\n".to_vec(), false), "{coding:?}");
    }
}

#[test]
fn the_default_level_is_one_of_the_levels() {
    for coding in ContentCoding::ALL {
        assert!(levels(coding).contains(&default_level(coding)));
    }
}
