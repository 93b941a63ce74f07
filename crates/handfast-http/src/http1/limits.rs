//! Limits for heads and trailer sections, in both versions.

/// Limits on the size of a head.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HeadLimits {
    /// Most bytes of a head, and of a trailer section.
    pub head: usize,
    /// Most bytes of the first line, its end included.
    pub start_line: usize,
    /// Most fields.
    pub fields: usize,
    /// Handling of field names with an underscore.
    pub underscores: Underscores,
}

impl HeadLimits {
    /// For heads that the proxy wrote from accepted ones: its own fields come on top of the limits, and the operator may have chosen a name with an
    /// underscore.
    pub const UNLIMITED: Self = Self {
        head: usize::MAX,
        start_line: usize::MAX,
        fields: usize::MAX,
        underscores: Underscores::Forward,
    };
}

impl Default for HeadLimits {
    fn default() -> Self {
        Self { head: 32_768, start_line: 16_384, fields: 128, underscores: Underscores::Drop }
    }
}

/// Handling of field names with an underscore. CGI and WSGI read `X_Real_IP` as `X-Real-IP`, so a client could set fields of the proxy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Underscores {
    /// Such fields are not forwarded.
    Drop,
    /// Such messages are refused.
    Refuse,
    /// Such fields are forwarded: for backends that distinguish both bytes.
    Forward,
}
