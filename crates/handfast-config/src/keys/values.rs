//! The keys of bytes that are a table.

use crate::kind::Text;
use crate::schema::section;

section! {
    /// Bytes that are no text.
    HEX_TABLE = "hex", "{ hex = … }";

    /// The bytes, two digits each.
    HEX: Text = "hex", Text("hexadecimal digits, such as `\"0d0a\"`"),
        example "\"0d0a\"", elsewhere "bytes binary";
}
