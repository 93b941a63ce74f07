//! Field blocks of other encoders, from `tests/data/hpack-stories`; with `HANDFAST_HPACK_STORIES=FOLDER` those of this folder.

use std::fs;
use std::path::{Path, PathBuf};

use super::*;

/// A block with its fields.
type Block = (Vec<u8>, Vec<(String, String)>);

fn read(path: &Path) -> Vec<Block> {
    let mut blocks: Vec<Block> = Vec::new();
    for line in fs::read_to_string(path).expect("a story").lines() {
        if let Some(block) = line.strip_prefix("= ") {
            blocks.push((hex(block), Vec::new()));
        } else {
            let colon = line[1..].find(": ").expect("a field") + 1;
            let (name, value) = (line[..colon].to_owned(), line[colon + 2..].to_owned());
            blocks.last_mut().expect("a block").1.push((name, value));
        }
    }
    blocks
}

/// `raw` encoders of the collection write names in upper case and the like: only bytes are compared.
#[test]
fn stories_of_other_encoders_are_decoded() {
    let folder = std::env::var_os("HANDFAST_HPACK_STORIES").map_or_else(
        || Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/hpack-stories"),
        PathBuf::from,
    );
    let (mut stories, mut fields) = (0, 0);
    for entry in fs::read_dir(&folder).expect("a folder of stories") {
        let path = entry.expect("an entry").path();
        if path.extension().is_none_or(|extension| extension != "txt") {
            continue;
        }
        let mut decoder = Decoder::default();
        for (index, (block, expected)) in read(&path).into_iter().enumerate() {
            fields += expected.len();
            assert_eq!(decode(&mut decoder, &block), Ok(expected), "{}, block {index}", path.display());
        }
        stories += 1;
    }
    assert!(stories >= 6 && fields >= 2_000, "{stories} stories with {fields} fields");
}
