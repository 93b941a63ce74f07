//! The command line of `handfast proxy-header`, as it is typed.

use clap::Args;

/// Text at the end of `--help`.
pub(crate) const AFTER_HELP: &str = "\
Examples:
  handfast proxy-header capture.bin
  handfast proxy-header 0d0a0d0a000d0a515549540a 2111000c c0000207c0000208 9c4001bb
  handfast proxy-header PROXY TCP4 192.0.2.7 192.0.2.8 40000 443
  socat -u TCP-LISTEN:9000 - | handfast proxy-header --json

Exit codes: 0 a valid header, 1 an invalid one or none, 2 wrong use.";

/// `handfast proxy-header`.
#[derive(Args, Debug)]
pub(crate) struct ProxyHeaderWords {
    /// A file, - for standard input, hexadecimal digits, or the text of a header of version 1
    ///
    /// A file may contain the bytes themselves or hexadecimal digits. Blanks, commas, colons, `0x` and `\x` between digits are
    /// ignored. For a file whose name consists of such digits, give its folder: ./cafe
    #[arg(value_name = "FILE|-|HEX", default_value = "-")]
    pub(crate) input: Vec<String>,
    /// Print one line of JSON
    #[arg(long)]
    pub(crate) json: bool,
}
