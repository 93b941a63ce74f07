//! Enums whose values have a word in logs, labels and requests: each value is one row.

use std::borrow::Cow;

/// A word of this program, or one that another process wrote.
pub type Word = Cow<'static, str>;

/// Declares an enum and its words: `Value = "word";`, or `Value = "word", "text";` with the name of the function that returns the texts.
/// A text is also the value's documentation.
macro_rules! words {
    ($(#[$meta:meta])* $name:ident { $($(#[$doc:meta])* $value:ident = $word:literal;)* }) => {
        $(#[$meta])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub enum $name {
            $($(#[$doc])* $value,)*
        }

        impl $name {
            /// All of them, in order.
            pub const ALL: [Self; [$($word),*].len()] = [$(Self::$value),*];

            /// The word used in logs, labels, requests and documents: stable.
            #[inline]
            pub const fn name(self) -> &'static str {
                match self {
                    $(Self::$value => $word,)*
                }
            }

            /// The one that has this word.
            pub fn named(word: &str) -> Option<Self> {
                Self::ALL.into_iter().find(|known| known.name() == word)
            }
        }
    };
    (
        $(#[$meta:meta])* $name:ident
        $(#[$of_text:meta])* fn $text_of:ident { $($value:ident = $word:literal, $text:literal;)* }
    ) => {
        words! { $(#[$meta])* $name { $(#[doc = $text] $value = $word;)* } }

        impl $name {
            $(#[$of_text])*
            pub const fn $text_of(self) -> &'static str {
                match self {
                    $(Self::$value => $text,)*
                }
            }
        }
    };
}
pub(crate) use words;
