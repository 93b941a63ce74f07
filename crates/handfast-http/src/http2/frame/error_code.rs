//! Codes of errors that end a stream or a connection.
//!
//! In: the number of a frame. Out: its name in RFC 9113 §7.

use std::fmt;

macro_rules! codes {
    ($($name:ident = $code:literal, $sentence:literal;)*) => {
        impl ErrorCode {
            $(
                #[doc = $sentence]
                pub const $name: Self = Self($code);
            )*

            /// Returns its name in RFC 9113; `None`: it has none.
            pub const fn name(self) -> Option<&'static str> {
                match self {
                    $(Self::$name => Some(stringify!($name)),)*
                    _ => None,
                }
            }
        }
    };
}

/// Code of an error (RFC 9113 §7). Others than the constants are legal and mean no particular error.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct ErrorCode(pub u32);

codes! {
    NO_ERROR = 0x00, "No error: a shutdown, or a response that does not need the rest of its request.";
    PROTOCOL_ERROR = 0x01, "Any error that has no other code.";
    INTERNAL_ERROR = 0x02, "Failure of the sender.";
    FLOW_CONTROL_ERROR = 0x03, "More content than the window allows.";
    SETTINGS_TIMEOUT = 0x04, "Missing acknowledgement of SETTINGS.";
    STREAM_CLOSED = 0x05, "Frame for a stream that has ended.";
    FRAME_SIZE_ERROR = 0x06, "Frame with a wrong length.";
    REFUSED_STREAM = 0x07, "Stream of which nothing was processed.";
    CANCEL = 0x08, "Stream that is not needed any more.";
    COMPRESSION_ERROR = 0x09, "Field block that cannot be decoded.";
    CONNECT_ERROR = 0x0A, "Failure of a connection that CONNECT made.";
    ENHANCE_YOUR_CALM = 0x0B, "Peer that causes too much load.";
    INADEQUATE_SECURITY = 0x0C, "TLS below the requirements.";
    HTTP_1_1_REQUIRED = 0x0D, "Request that needs HTTP/1.1.";
}

impl fmt::Display for ErrorCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.name() {
            Some(name) => f.write_str(name),
            None => write!(f, "error code {:#x}", self.0),
        }
    }
}

impl fmt::Debug for ErrorCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}
