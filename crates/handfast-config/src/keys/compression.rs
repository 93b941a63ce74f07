//! The keys inside of `compression`: which responses are compressed, and how.

use handfast_http::content_coding::ContentCoding;

use crate::kind::{Choice, Count, List, MediaRange, Size, Switch};
use crate::schema::section;

section! {
    /// Compression of responses.
    COMPRESSION_TABLE = "compression", "{ algorithms = …, types = … }";

    /// The algorithms, best first: of those that a client weighs alike the first one is used.
    COMPRESSION_ALGORITHMS: List<Choice<ContentCoding>> = "algorithms", List::of(Choice(&[
        ("zstd", ContentCoding::Zstd),
        ("br", ContentCoding::Brotli),
        ("gzip", ContentCoding::Gzip),
    ])),
        absent "`[\"zstd\", \"br\", \"gzip\"]`",
        why "for the same size `zstd` takes a third of the time of the others; older browsers know the others",
        example "[\"br\", \"gzip\"]", elsewhere "encode compression-algo algo formats algorithm";

    /// Types of content that are compressed, without parameters: `"text/*"` for all of a kind, `"application/*+json"` for all with this suffix,
    /// `"*/*"` for all. gRPC is never compressed here.
    COMPRESSION_TYPES: List<MediaRange> = "types", List::of(MediaRange),
        absent "text, JSON, JavaScript, XML, SVG, WebAssembly, bitmaps, and fonts that are not compressed",
        why "pictures, films, archives and WOFF are compressed already: it would cost time and save nothing",
        example "[\"text/*\", \"application/json\"]",
        elsewhere "gzip-types brotli-types zstd-types compression-type mime-types content-types match";

    /// Fewest bytes of content that are compressed, where `Content-Length` has their number.
    COMPRESSION_MIN_SIZE: Size = "min-size", Size(1..=1024 * 1024 * 1024),
        default "\"1KiB\"",
        why "a head and 1 KiB go in one packet, so that nothing is saved below",
        example "\"256B\"", elsewhere "gzip-min-length brotli-min-length minimum-length min-length minimum-size minsize";

    /// Level of gzip: with a higher one content gets smaller and takes more time.
    GZIP_LEVEL: Count<u8> = "gzip-level", Count(1..=9),
        default "5",
        why "higher levels take a fifth more time for half a percent",
        example "1", elsewhere "gzip-comp-level comp-level level";

    /// Level of Brotli.
    BR_LEVEL: Count<u8> = "br-level", Count(1..=4),
        default "4",
        why "higher levels take more than 1 MiB of memory for each response",
        example "2", elsewhere "brotli-comp-level brotli-level quality";

    /// Level of Zstandard.
    ZSTD_LEVEL: Count<u8> = "zstd-level", Count(1..=6),
        default "3",
        why "level 5 takes twice the time for 6 % fewer bytes",
        example "5", elsewhere "zstd-comp-level";

    /// Compresses responses with `Set-Cookie` too, those of routes with `basic-auth`, `forward-auth` or `allow-certificates`, and those to clients
    /// with a verified certificate. The length of a compressed response shows whether its secret and a text of the request are alike (BREACH).
    WITH_SECRETS: Switch = "with-secrets", Switch,
        default "false",
        why "a page that makes a browser send requests, with an observer of their lengths, can guess secrets in pages, letter by letter",
        example "true", elsewhere "breach gzip-proxied";
}
