//! The examples of RFC 7541, Appendix C.

use super::*;

fn pairs(fields: &[(&str, &str)]) -> Vec<(String, String)> {
    fields.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
}

#[test]
fn integers() {
    for (bytes, prefix, value) in [("0a", 5, 10), ("1f9a0a", 5, 1337), ("2a", 8, 42)] {
        let bytes = hex(bytes);
        // C.1.3 begins at an octet boundary, which no representation of HPACK does: one byte holds the number.
        if prefix == 8 {
            assert_eq!(usize::from(bytes[0]), value);
            continue;
        }
        let mut rest = &bytes[1..];
        assert_eq!(integer::read(bytes[0], prefix, &mut rest), Ok(value));
        assert!(rest.is_empty());
        let mut written = Vec::new();
        integer::write(&mut written, 0, prefix, value);
        assert_eq!(written, bytes);
    }
}

#[test]
fn single_fields() {
    for (block, name, value, bytes_kept) in [
        (
            "400a 6375 7374 6f6d 2d6b 6579 0d63 7573 746f 6d2d 6865 6164 6572",
            "custom-key",
            "custom-header",
            55,
        ),
        ("040c 2f73 616d 706c 652f 7061 7468", ":path", "/sample/path", 0),
        ("1008 7061 7373 776f 7264 0673 6563 7265 74", "password", "secret", 0),
        ("82", ":method", "GET", 0),
    ] {
        let mut decoder = Decoder::default();
        assert_eq!(decode(&mut decoder, &hex(block)), Ok(pairs(&[(name, value)])));
        assert_eq!(decoder.table_size(), bytes_kept, "{block}");
    }
}

/// Blocks of one connection: the block without and with Huffman code, the fields, and the size of the table behind it.
type Row = (&'static str, &'static str, &'static [(&'static str, &'static str)], usize);

/// Appendix C.3 and C.4.
const REQUESTS: [Row; 3] = [
    (
        "8286 8441 0f77 7777 2e65 7861 6d70 6c65 2e63 6f6d",
        "8286 8441 8cf1 e3c2 e5f2 3a6b a0ab 90f4 ff",
        &[(":method", "GET"), (":scheme", "http"), (":path", "/"), (":authority", "www.example.com")],
        57,
    ),
    (
        "8286 84be 5808 6e6f 2d63 6163 6865",
        "8286 84be 5886 a8eb 1064 9cbf",
        &[
            (":method", "GET"),
            (":scheme", "http"),
            (":path", "/"),
            (":authority", "www.example.com"),
            ("cache-control", "no-cache"),
        ],
        110,
    ),
    (
        "8287 85bf 400a 6375 7374 6f6d 2d6b 6579 0c63 7573 746f 6d2d 7661 6c75 65",
        "8287 85bf 4088 25a8 49e9 5ba9 7d7f 8925 a849 e95b b8e8 b4bf",
        &[
            (":method", "GET"),
            (":scheme", "https"),
            (":path", "/index.html"),
            (":authority", "www.example.com"),
            ("custom-key", "custom-value"),
        ],
        164,
    ),
];

/// Appendix C.5 and C.6, with a table of 256 bytes.
const RESPONSES: [Row; 3] = [
    (
        "4803 3330 3258 0770 7269 7661 7465 611d 4d6f 6e2c 2032 3120 4f63 7420 3230 3133 2032 303a 3133 3a32 \
         3120 474d 546e 1768 7474 7073 3a2f 2f77 7777 2e65 7861 6d70 6c65 2e63 6f6d",
        "4882 6402 5885 aec3 771a 4b61 96d0 7abe 9410 54d4 44a8 2005 9504 0b81 66e0 82a6 2d1b ff6e 919d 29ad \
         1718 63c7 8f0b 97c8 e9ae 82ae 43d3",
        &[
            (":status", "302"),
            ("cache-control", "private"),
            ("date", "Mon, 21 Oct 2013 20:13:21 GMT"),
            ("location", "https://www.example.com"),
        ],
        222,
    ),
    (
        "4803 3330 37c1 c0bf",
        "4883 640e ffc1 c0bf",
        &[
            (":status", "307"),
            ("cache-control", "private"),
            ("date", "Mon, 21 Oct 2013 20:13:21 GMT"),
            ("location", "https://www.example.com"),
        ],
        222,
    ),
    (
        "88c1 611d 4d6f 6e2c 2032 3120 4f63 7420 3230 3133 2032 303a 3133 3a32 3220 474d 54c0 5a04 677a 6970 \
         7738 666f 6f3d 4153 444a 4b48 514b 425a 584f 5157 454f 5049 5541 5851 5745 4f49 553b 206d 6178 2d61 \
         6765 3d33 3630 303b 2076 6572 7369 6f6e 3d31",
        "88c1 6196 d07a be94 1054 d444 a820 0595 040b 8166 e084 a62d 1bff c05a 839b d9ab 77ad 94e7 821d d7f2 \
         e6c7 b335 dfdf cd5b 3960 d5af 2708 7f36 72c1 ab27 0fb5 291f 9587 3160 65c0 03ed 4ee5 b106 3d50 07",
        &[
            (":status", "200"),
            ("cache-control", "private"),
            ("date", "Mon, 21 Oct 2013 20:13:22 GMT"),
            ("location", "https://www.example.com"),
            ("content-encoding", "gzip"),
            ("set-cookie", "foo=ASDJKHQKBZXOQWEOPIUAXQWEOIU; max-age=3600; version=1"),
        ],
        215,
    ),
];

#[test]
fn requests_and_responses() {
    for (rows, table) in [(REQUESTS, "3fe11f"), (RESPONSES, "3fe101")] {
        for is_huffman in [false, true] {
            let mut decoder = Decoder::default();
            assert_eq!(decode(&mut decoder, &hex(table)), Ok(vec![]));
            for (plain, huffman, fields, size) in rows {
                let block = hex(if is_huffman { huffman } else { plain });
                assert_eq!(decode(&mut decoder, &block), Ok(pairs(fields)), "Huffman: {is_huffman}");
                assert_eq!(decoder.table_size(), size);
            }
        }
    }
}
