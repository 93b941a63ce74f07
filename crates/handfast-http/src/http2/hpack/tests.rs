//! Field blocks: the examples of the document, faults, and properties.

mod decoding;
mod encoding;
mod examples;
mod stories;

use super::*;

/// Fields as pairs, whatever they mean.
#[derive(Debug, Default)]
struct Pairs {
    text: Vec<u8>,
    pairs: Vec<(String, String)>,
}

impl Sink for Pairs {
    fn text(&mut self) -> &mut Vec<u8> {
        &mut self.text
    }

    fn admits(&mut self, _: &Line) -> Result<bool, HpackError> {
        Ok(true)
    }

    fn take(&mut self, start: usize, line: &Line) {
        let text = &self.text[start..];
        assert_eq!(text.len(), line.text_length());
        let (name, rest) = text.split_at(line.name_length);
        let value = rest.strip_prefix(b": ").and_then(|rest| rest.strip_suffix(b"\r\n")).expect("a line");
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        assert_eq!(line.name, Name::of(name), "the meaning of {}", text(name));
        assert_eq!(line.flaw, Flaw::of(value), "the faults of {}", text(value));
        self.pairs.push((text(name), text(value)));
        self.text.clear();
    }
}

fn decode(decoder: &mut Decoder, block: &[u8]) -> Result<Vec<(String, String)>, HpackError> {
    let mut pairs = Pairs::default();
    decoder.run(block, &mut pairs).map(|()| pairs.pairs)
}

/// Bytes of a dump.
fn hex(text: &str) -> Vec<u8> {
    let digits: Vec<u32> = text.chars().filter_map(|letter| letter.to_digit(16)).collect();
    digits.chunks(2).map(|pair| (pair[0] << 4 | pair[1]) as u8).collect()
}
