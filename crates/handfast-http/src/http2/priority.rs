//! Priorities of responses: urgency, and whether parts of several are useful at once.
//!
//! **Source**: RFC 9218 §4 and RFC 9218 §5.

/// Priority of a response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Priority {
    /// 0 is the most urgent, 7 the least.
    pub urgency: u8,
    /// True if it shares the connection with others of its urgency, piece by piece; also without any signal of the client.
    pub is_incremental: bool,
}

impl Default for Priority {
    fn default() -> Self {
        Self { urgency: 3, is_incremental: true }
    }
}

impl Priority {
    /// Reads the value of a `Priority` field or PRIORITY_UPDATE frame: a dictionary, of which two members matter. What cannot be read is ignored
    /// (RFC 9218 §4).
    pub fn parse(value: &[u8]) -> Self {
        let mut priority = Self { urgency: 3, is_incremental: false };
        for member in crate::http1::tokens(value) {
            match member {
                [b'u', b'=', digit @ b'0'..=b'7'] | [b'u', b'=', digit @ b'0'..=b'7', b';', ..] => {
                    priority.urgency = digit - b'0';
                }
                [b'i'] | [b'i', b';', ..] | b"i=?1" => priority.is_incremental = true,
                b"i=?0" => priority.is_incremental = false,
                _ => {}
            }
        }
        priority
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn members_that_matter_are_read_and_all_others_ignored() {
        for (value, urgency, is_incremental) in [
            ("", 3, false),
            ("u=1", 1, false),
            ("u=1, i", 1, true),
            ("i", 3, true),
            ("i=?0", 3, false),
            ("i=?1,u=7", 7, true),
            ("u=8", 3, false),
            ("u=-1", 3, false),
            ("u=2;x=1, i;y", 2, true),
            ("u=1,u=5", 5, false),
            ("x, u=0 , i=2", 0, false),
            ("u", 3, false),
        ] {
            assert_eq!(Priority::parse(value.as_bytes()), Priority { urgency, is_incremental }, "{value}");
        }
    }
}
