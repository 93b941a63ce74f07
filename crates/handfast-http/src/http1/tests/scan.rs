//! The searches by words find what a look at each byte finds.

use proptest::collection::vec;
use proptest::prelude::*;

use crate::http1::scan::{
    HOST, TOKEN, class, end_words, has_control, is_lower_token, is_text, letters_end, next_control,
    push_lower, target_end,
};

fn find(text: &[u8], from: usize, is_end: impl Fn(u8) -> bool) -> Option<usize> {
    text[from..].iter().position(|byte| is_end(*byte)).map(|index| from + index)
}

fn is_name(byte: u8) -> bool {
    byte.is_ascii_alphabetic() || byte == b'-'
}

fn agree(text: &[u8], from: usize) {
    let control = find(text, from, |byte| byte < 0x20 || byte == 0x7F);
    assert_eq!(next_control(text, from), control);
    let mut lower = b"X".to_vec();
    push_lower(&mut lower, &text[from..]);
    assert_eq!(lower, [b"X", &text[from..].to_ascii_lowercase()[..]].concat());
    assert_eq!(has_control(&text[from..]), control.is_some());
    assert_eq!(
        target_end(text, from),
        find(text, from, |byte| !(0x21..=0x7E).contains(&byte) || byte == b'#')
    );
    assert_eq!(letters_end(text, from), find(text, from, |byte| !is_name(byte)));
}

#[test]
fn each_byte_is_found_at_each_place() {
    for byte in 0..=u8::MAX {
        for length in 1..40 {
            for at in 0..length {
                let mut text = vec![b'a'; length];
                text[at] = byte;
                agree(&text, 0);
            }
        }
    }
}

#[test]
fn classes_are_those_of_the_rfcs() {
    for byte in 0..=u8::MAX {
        let is_token = byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte);
        assert_eq!(class(byte) & TOKEN != 0, is_token, "{byte:#x}");
        assert_eq!(is_lower_token(&[b'a', byte]), is_token && !byte.is_ascii_uppercase(), "{byte:#x}");
        let is_host = byte.is_ascii_alphanumeric() || b"-._~".contains(&byte);
        assert_eq!(class(byte) & HOST != 0, is_host, "{byte:#x}");
    }
}

#[test]
fn short_texts_have_their_ends_in_words() {
    assert_eq!(end_words(b"abc"), None);
    assert_eq!(end_words(b"abcd"), Some((0x6463_6261_6463_6261, 0x6463_6261_6463_6261)));
    assert_eq!(end_words(b"abcdef"), Some((0x6463_6261_6665_6463, 0x6463_6261_6665_6463)));
    assert_eq!(end_words(b"abcdefgh"), Some((0x6867_6665_6463_6261, 0x6867_6665_6463_6261)));
    assert_eq!(end_words(b"abcdefghi"), Some((0x6867_6665_6463_6261, 0x6968_6766_6564_6362)));
}

proptest! {
    #[test]
    fn any_bytes_are_searched_alike(text in vec(any::<u8>(), 0..60), from in 0..60_usize) {
        agree(&text, from.min(text.len()));
    }

    #[test]
    fn text_without_control_bytes_is_compared_by_letters(text in "[ -~]{0,12}", lower in "[a-z0-9-]{0,12}") {
        prop_assert_eq!(is_text(text.as_bytes(), lower.as_bytes()), text.eq_ignore_ascii_case(&lower));
        prop_assert!(is_text(lower.to_uppercase().as_bytes(), lower.as_bytes()));
    }
}
