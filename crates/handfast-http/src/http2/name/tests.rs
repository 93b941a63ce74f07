//! Names and values, by what they mean.

use super::*;

#[test]
fn names_have_meanings() {
    for (name, expected) in [
        (":method", Name::Pseudo(Pseudo::Method)),
        (":scheme", Name::Pseudo(Pseudo::Scheme)),
        (":authority", Name::Pseudo(Pseudo::Authority)),
        (":path", Name::Pseudo(Pseudo::Path)),
        (":protocol", Name::Pseudo(Pseudo::Protocol)),
        (":status", Name::Pseudo(Pseudo::Status)),
        (":Status", Name::UnknownPseudo),
        (":", Name::UnknownPseudo),
        (":path ", Name::UnknownPseudo),
        ("", Name::Invalid),
        ("X", Name::Invalid),
        ("x y", Name::Invalid),
        ("x:", Name::Invalid),
        ("x_y", Name::Field(Kind::Underscore)),
        ("_", Name::Field(Kind::Underscore)),
        ("content_length", Name::Field(Kind::Underscore)),
        ("cookie", Name::Cookie),
        ("cookie2", Name::Field(Kind::Other)),
        ("sec-websocket-key", Name::WebSocketKey),
        ("sec-websocket-key1", Name::Field(Kind::Other)),
        ("connection", Name::Connection),
        ("transfer-encoding", Name::Connection),
        ("upgrade", Name::Connection),
        ("keep-alive", Name::Connection),
        ("proxy-connection", Name::Connection),
        ("upgrade-insecure-requests", Name::Field(Kind::Other)),
        ("proxy-authenticate", Name::Field(Kind::HopByHop)),
        ("proxy", Name::Field(Kind::HopByHop)),
        ("http2-settings", Name::Field(Kind::HopByHop)),
        ("te", Name::Field(Kind::Te)),
        ("host", Name::Field(Kind::Host)),
        ("expect", Name::Field(Kind::Expect)),
        ("content-length", Name::Field(Kind::ContentLength)),
        ("x-forwarded-for", Name::Field(Kind::Forwarding)),
        ("x", Name::Field(Kind::Other)),
    ] {
        assert_eq!(Name::of(name.as_bytes()), expected, "{name}");
    }
}

#[test]
fn the_worst_fault_of_a_value_counts() {
    for (value, expected) in [
        ("", Flaw::None),
        ("a b\tc", Flaw::None),
        ("\u{e9}", Flaw::None),
        (" a", Flaw::Blank),
        ("a\t", Flaw::Blank),
        (" ", Flaw::Blank),
        ("\t", Flaw::Blank),
        ("a\x01", Flaw::Control),
        ("\x7f", Flaw::Control),
        (" a\x0b", Flaw::Control),
        ("a\0", Flaw::LineEnd),
        ("\ra", Flaw::LineEnd),
        ("a\tb\x01c\n", Flaw::LineEnd),
        ("a value of more than sixteen bytes\x1f", Flaw::Control),
        ("a value of more than sixteen bytes", Flaw::None),
    ] {
        assert_eq!(Flaw::of(value.as_bytes()), expected, "{}", value.escape_debug());
    }
}
