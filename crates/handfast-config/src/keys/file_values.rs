//! The keys inside of `files`.

use handfast_http::content_coding::ContentCoding;

use crate::kind::{Choice, FileBelow, FileExtension, FileName, FolderPath, List};
use crate::schema::section;

section! {
    /// Files that requests are answered with.
    FILES_TABLE = "files", "{ folder = …, fallback = … }";

    /// The folder. The path of a request, as `rewrite-path` leaves it, is that of a file in it. Links that lead out of the folder are not followed.
    /// It is opened as the user that serves (`process.user`), at the start and at each reload.
    FILES_FOLDER: FolderPath = "folder", FolderPath,
        example "\"/srv/www\"", elsewhere "root path directory dir document-root alias";

    /// Names of the file that is sent for a folder. The first one that exists is sent; folders without one are not listed.
    FILES_INDEX: List<FileName> = "index", List { least: 0, ..List::of(FileName) },
        default "\"index.html\"",
        why "generators of sites write this name",
        example "[\"index.html\", \"index.htm\"]", elsewhere "directory-index directoryindex index-file";

    /// Extension that is added to a path that leads to no file: with `".html"`, `/about` is the file `about.html`.
    FILES_EXTENSION: FileExtension = "extension", FileExtension,
        absent "a path is the name of its file",
        why "pages have the same address then in every server",
        example "\".html\"", elsewhere "clean-urls try-extension suffix multiviews";

    /// The file for paths that lead to no file, with status 200: for applications that route in the browser.
    FILES_FALLBACK: FileBelow = "fallback", FileBelow,
        absent "status 404",
        why "a page that does not exist should not look as if it did",
        example "\"/index.html\"", elsewhere "try-files try fallback-resource spa error-document";

    /// Codings of files that are compressed already and have the name of the file with `.br`, `.zst` or `.gz` behind it. A client gets the one
    /// that it likes best; of equal ones the first of this list.
    FILES_PRECOMPRESSED: List<Choice<ContentCoding>> = "precompressed",
        List::of(Choice(&[("br", ContentCoding::Brotli), ("zstd", ContentCoding::Zstd), ("gzip", ContentCoding::Gzip)])),
        absent "only the file itself is sent",
        why "most sites have no such files, and looking for each costs time",
        example "[\"br\", \"gzip\"]", elsewhere "gzip-static brotli-static zstd-static compressed";
}
