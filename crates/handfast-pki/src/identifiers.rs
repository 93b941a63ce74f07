//! Identifiers of rustls and webpki as words, for errors without a text.

/// `IllegalMiddleboxChangeCipherSpec` as words: rustls names what it found by identifiers.
pub fn spaced(identifier: &str) -> String {
    let mut words = String::with_capacity(identifier.len() + 8);
    let mut before = ' ';
    for letter in identifier.chars() {
        if letter.is_ascii_uppercase() && before.is_ascii_lowercase() {
            words.push(' ');
        }
        words.push(letter.to_ascii_lowercase());
        before = letter;
    }
    words
}
