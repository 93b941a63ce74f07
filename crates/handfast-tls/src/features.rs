//! CPU instructions that make TLS faster: which of them this processor has, and the cost of each missing one.
//!
//! In: the processor. Out: names, as the kernel has them in /proc/cpuinfo, and a few words. The words are rough on purpose:
//! they show where a difference between two machines may come from.

/// A name, whether it is here, and what is lost without it.
type Feature = (&'static str, bool, &'static str);

/// Names of what is here, and what is missing with what that costs.
///
/// **Units**: none; **cost**: a microsecond.
pub fn features() -> Split {
    split(&known())
}

/// The same of another machine, whose kernel shows these flags in /proc/cpuinfo.
pub fn features_of(flags: &[&str]) -> Split {
    let mut known = known();
    known.iter_mut().for_each(|feature| feature.1 = flags.contains(&feature.0));
    split(&known)
}

/// Names of what is here, and what is missing with what that costs.
pub type Split = (Vec<&'static str>, Vec<(&'static str, &'static str)>);

fn split(known: &[Feature]) -> Split {
    let found = known.iter().filter(|feature| feature.1).map(|feature| feature.0).collect();
    let missing = known.iter().filter(|feature| !feature.1).map(|feature| (feature.0, feature.2)).collect();
    (found, missing)
}

#[cfg(target_arch = "x86_64")]
fn known() -> Vec<Feature> {
    use std::arch::is_x86_feature_detected as has;
    vec![
        // AES in tables or bit-sliced, against one round an instruction and cycle: Gueron, "Intel AES New Instructions".
        ("aes", has!("aes"), "AES-GCM in software, some ten times slower"),
        // GHASH by SSSE3 shuffles: aws-lc, crypto/fipsmodule/modes/asm/ghash-ssse3-x86_64.pl.
        ("pclmulqdq", has!("pclmulqdq"), "the GCM half of AES-GCM several times slower"),
        // Four blocks of ChaCha20 at once and not eight; RSA without rsaz-avx2.
        ("avx2", has!("avx2"), "ChaCha20 and RSA up to twice slower"),
        // Montgomery multiplication with mulx, adcx and adox: aws-lc, crypto/fipsmodule/bn/asm/x86_64-mont5.pl and
        // p256-x86_64-asm.pl (Broadwell's row against Haswell's).
        ("bmi2", has!("bmi2"), "RSA, P-256, X25519 up to a third slower"),
        ("adx", has!("adx"), "RSA, P-256, X25519 up to a third slower"),
        // Cycles for a byte on Ryzen: 2.05 with, 9.02 without (aws-lc, crypto/fipsmodule/sha/asm/sha512-x86_64.pl).
        ("sha_ni", has!("sha"), "SHA-256 about four times slower"),
        // The wide forms of AES and carry-less multiplication, in 512-bit registers: Drucker, Gueron, Krasnov, "Making AES
        // great again", with aws-lc's crypto/fipsmodule/modes/asm/aesni-gcm-avx512.pl, which needs all three.
        ("avx512f", has!("avx512f"), "no wide AES-GCM, no fast RSA"),
        ("vaes", has!("vaes"), "AES-GCM about half as fast"),
        ("vpclmulqdq", has!("vpclmulqdq"), "AES-GCM about half as fast"),
        // 5,513 signatures a second with it, 2,246 without, on one machine: rustls, issue 1830; in aws-lc it is
        // crypto/fipsmodule/bn/asm/rsaz-2k-avx512.pl.
        ("avx512ifma", has!("avx512ifma"), "RSA signatures about half as fast"),
    ]
}

#[cfg(target_arch = "aarch64")]
fn known() -> Vec<Feature> {
    use std::arch::is_aarch64_feature_detected as has;
    vec![
        // The kernel's pmull is part of what Rust calls aes.
        ("aes", has!("aes"), "AES-GCM in software, some ten times slower"),
        ("pmull", has!("aes"), "the GCM half of AES-GCM several times slower"),
        ("sha2", has!("sha2"), "SHA-256 about four times slower"),
        // EOR3 in aws-lc's crypto/fipsmodule/modes/asm/aesv8-gcm-armv8-unroll8.pl.
        ("sha3", has!("sha3"), "AES-GCM up to a third slower"),
    ]
}

#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
fn known() -> Vec<Feature> {
    Vec::new()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_is_found_or_missing() {
        let (found, missing) = split(&[("a", true, "x"), ("b", false, "y")]);
        assert_eq!((found, missing), (vec!["a"], vec![("b", "y")]));
        let (found, missing) = features();
        assert_eq!(found.len() + missing.len(), known().len());
        let is_reported = cfg!(any(target_arch = "x86_64", target_arch = "aarch64"));
        assert_eq!(known().len() > 1, is_reported);
    }

    /// The kernel's flags agree with the program's own detection.
    #[test]
    #[cfg(target_arch = "x86_64")]
    fn the_kernel_agrees() {
        let processors = std::fs::read_to_string("/proc/cpuinfo").expect("Linux has it");
        let flags = processors.lines().find(|line| line.starts_with("flags")).expect("x86 has flags");
        let flags: Vec<&str> = flags.split_whitespace().collect();
        for (name, here, _) in known() {
            assert_eq!(here, flags.contains(&name), "{name}");
        }
        assert_eq!(features_of(&flags), features());
        assert_eq!(features_of(&["aes"]).0, ["aes"]);
    }
}
