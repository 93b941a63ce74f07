//! The HTTP statuses that count as success: `2xx,404,429`.
//!
//! In: the text of `--expect`, then the status of each answer. Out: whether the answer is a failure.

use std::fmt;

use serde::{Deserialize, Serialize};

/// The statuses that are no failure. In a plan: a list such as `["2xx", "404"]`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "Vec<String>", into = "Vec<String>")]
pub struct ExpectedStatuses(Vec<Expected>);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Expected {
    /// The first digit.
    Class(u16),
    Code(u16),
}

/// A word that names no final status.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StatusError(String);

impl fmt::Display for StatusError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = &self.0;
        write!(f, "invalid status `{text}`, expected classes from 2xx to 5xx and codes from 200 to 599")
    }
}

impl std::error::Error for StatusError {}

impl Expected {
    /// Final statuses only: one of 1xx is no answer (RFC 9110 §15.2).
    fn parse(text: &str) -> Result<Self, StatusError> {
        let wrong = || StatusError(text.to_owned());
        let (number, class) = match text.strip_suffix("xx") {
            Some(digit) => (digit, true),
            None => (text, false),
        };
        let digits = number.bytes().all(|byte| byte.is_ascii_digit());
        let number = number.parse::<u16>().ok().filter(|_| digits).ok_or_else(wrong)?;
        match (class, number) {
            (true, 2..=5) => Ok(Self::Class(number)),
            (false, 200..=599) => Ok(Self::Code(number)),
            _ => Err(wrong()),
        }
    }

    const fn is(self, status: u16) -> bool {
        match self {
            Self::Class(class) => status / 100 == class,
            Self::Code(code) => status == code,
        }
    }
}

impl fmt::Display for Expected {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Class(class) => write!(f, "{class}xx"),
            Self::Code(code) => write!(f, "{code}"),
        }
    }
}

impl Default for ExpectedStatuses {
    /// Success and redirection.
    fn default() -> Self {
        Self(vec![Expected::Class(2), Expected::Class(3)])
    }
}

impl ExpectedStatuses {
    /// Reads classes and codes with commas between them.
    ///
    /// **Errors**: the first word that is neither.
    pub fn parse(text: &str) -> Result<Self, StatusError> {
        let words = text.split(',').map(|word| Expected::parse(word.trim()));
        words.collect::<Result<_, _>>().map(Self)
    }

    /// Returns true if an answer with this status is no failure.
    pub fn accepts(&self, status: u16) -> bool {
        self.0.iter().any(|expected| expected.is(status))
    }

    /// Returns true if these are the statuses that are expected unless the user requests others.
    pub fn is_default(&self) -> bool {
        *self == Self::default()
    }
}

impl fmt::Display for ExpectedStatuses {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let words: Vec<String> = self.0.iter().map(ToString::to_string).collect();
        f.write_str(&words.join(", "))
    }
}

impl From<ExpectedStatuses> for Vec<String> {
    fn from(statuses: ExpectedStatuses) -> Self {
        statuses.0.iter().map(ToString::to_string).collect()
    }
}

impl TryFrom<Vec<String>> for ExpectedStatuses {
    type Error = StatusError;

    fn try_from(words: Vec<String>) -> Result<Self, StatusError> {
        Self::parse(&words.join(","))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn classes_and_codes_are_expected_and_nothing_else() {
        let expected = ExpectedStatuses::parse("2xx, 404,429").expect("classes and codes");
        let accepted: Vec<u16> = (100..600).filter(|status| expected.accepts(*status)).collect();
        assert_eq!(accepted.len(), 102);
        assert!(accepted.contains(&204) && accepted.contains(&404) && accepted.contains(&429));
        assert!(!expected.accepts(302) && !expected.accepts(101));
        let usual = ExpectedStatuses::default();
        assert!(usual.accepts(200) && usual.accepts(304) && !usual.accepts(404) && usual.is_default());
        assert!(!expected.is_default() && ExpectedStatuses::parse("2xx,3xx").is_ok_and(|e| e.is_default()));
    }

    #[test]
    fn words_that_are_no_final_status_are_named() {
        for text in ["", "2xx,", "1xx", "101", "6xx", "600", "20", "xx", "+200", "+2xx", "2XX", "200-299"] {
            let message = ExpectedStatuses::parse(text).expect_err(text).to_string();
            assert!(message.contains("expected classes from 2xx to 5xx"), "{message}");
        }
    }

    #[test]
    fn a_plan_keeps_them_as_they_are_written() {
        let expected = ExpectedStatuses::parse("2xx,404").expect("good");
        let kept = serde_json::to_string(&expected).expect("text");
        assert_eq!(kept, r#"["2xx","404"]"#);
        assert_eq!(serde_json::from_str::<ExpectedStatuses>(&kept).expect("the same"), expected);
        assert!(serde_json::from_str::<ExpectedStatuses>(r#"["7xx"]"#).is_err());
        assert!(serde_json::from_str::<ExpectedStatuses>("[]").is_err());
    }
}
