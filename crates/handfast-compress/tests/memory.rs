//! Memory of encoders, as the kernel counts it for this process; alone in it, so nothing else allocates.
#![forbid(unsafe_code)]

use handfast_compress::{Encoder, levels, memory, piece};
use handfast_http::content_coding::ContentCoding;

/// Encoders at once: enough that what else the process does is lost among them.
const COUNT: usize = 16;

fn resident_bytes() -> usize {
    let status = std::fs::read_to_string("/proc/self/status").expect("Linux has it");
    let line = status.lines().find(|line| line.starts_with("VmRSS:")).expect("it has this line");
    let kib: usize =
        line.split_ascii_whitespace().nth(1).and_then(|text| text.parse().ok()).expect("a number");
    kib * 1024
}

#[test]
fn no_encoder_takes_more_than_its_memory() {
    let content: Vec<u8> =
        (0..400_000_u32).flat_map(|number| (number / 7).to_string().into_bytes()).collect();
    // Kept to the end: what one frees, another one would take.
    let mut encoders = Vec::new();
    for coding in ContentCoding::ALL {
        for level in
            [*levels(coding).start(), handfast_compress::default_level(coding), *levels(coding).end()]
        {
            let before = resident_bytes();
            for _ in 0..COUNT {
                let mut encoder = Encoder::new(coding, level).expect("there is memory");
                for piece in content[..600_000].chunks(piece(coding)) {
                    let mut out = Vec::new();
                    encoder.put(piece, &mut out).expect("it goes on");
                    encoder.flush(&mut out).expect("it goes on");
                }
                encoders.push(encoder);
            }
            let each = (resident_bytes() - before) / COUNT;
            println!("{coding:?} {level}: {} KiB of {}", each / 1024, memory(coding) / 1024);
            assert!(
                each <= memory(coding),
                "{coding:?} {level}: {each} bytes, and {} at most",
                memory(coding)
            );
        }
    }
}
