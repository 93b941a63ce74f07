//! The blocks of a pcapng file, as Wireshark reads them.
//!
//! In: packets, interfaces, TLS secrets. Out: bytes, a block each; [`crate::capture`] reads them. A file is a [`section`], its
//! [`interface`]s, perhaps [`decryption_secrets`], and [`packet`]s. Source: draft-ietf-opsawg-pcapng; the key log is RFC 9850.

/// A block: its type, its length, the body, its length again.
fn block(kind: u32, body: &[u8]) -> Vec<u8> {
    let padded = body.len().next_multiple_of(4);
    let length = u32::try_from(padded + 12).expect("a block has a packet or some megabytes of secrets");
    let mut block = Vec::with_capacity(padded + 12);
    block.extend_from_slice(&kind.to_le_bytes());
    block.extend_from_slice(&length.to_le_bytes());
    block.extend_from_slice(body);
    block.resize(padded + 8, 0);
    block.extend_from_slice(&length.to_le_bytes());
    block
}

/// An option: its code, its length, the value.
fn option(body: &mut Vec<u8>, code: u16, value: &[u8]) {
    let length = u16::try_from(value.len()).expect("an option of ours is a name or a number");
    body.extend_from_slice(&code.to_le_bytes());
    body.extend_from_slice(&length.to_le_bytes());
    body.extend_from_slice(value);
    body.resize(body.len().next_multiple_of(4), 0);
}

/// Section Header Block: the beginning. `program`: the program that writes it.
pub fn section(program: &str) -> Vec<u8> {
    let mut body = Vec::new();
    body.extend_from_slice(&0x1a2b_3c4d_u32.to_le_bytes());
    body.extend_from_slice(&[1, 0, 0, 0]);
    body.extend_from_slice(&(-1_i64).to_le_bytes());
    option(&mut body, 4, program.as_bytes());
    option(&mut body, 0, b"");
    block(0x0a0d_0d0a, &body)
}

/// Interface Description Block, with times in nanoseconds. Interfaces are numbered from 0 in their order.
pub fn interface(link: u16, name: &str, description: &str) -> Vec<u8> {
    let mut body = Vec::new();
    body.extend_from_slice(&link.to_le_bytes());
    body.extend_from_slice(&[0; 6]);
    option(&mut body, 2, name.as_bytes());
    option(&mut body, 3, description.as_bytes());
    // Nanoseconds.
    option(&mut body, 9, &[9]);
    option(&mut body, 0, b"");
    block(1, &body)
}

/// Enhanced Packet Block: `at` in nanoseconds since 1970, `direction` 1 for what came in and 2 for what went out.
pub fn packet(interface: u32, at: u64, direction: u32, packet: &[u8], comment: Option<&str>) -> Vec<u8> {
    let length = u32::try_from(packet.len()).unwrap_or(0);
    let mut body = Vec::with_capacity(packet.len() + 64);
    for word in [interface, (at >> 32) as u32, at as u32, length, length] {
        body.extend_from_slice(&word.to_le_bytes());
    }
    body.extend_from_slice(packet);
    body.resize(body.len().next_multiple_of(4), 0);
    option(&mut body, 2, &direction.to_le_bytes());
    if let Some(comment) = comment {
        option(&mut body, 1, comment.as_bytes());
    }
    option(&mut body, 0, b"");
    block(6, &body)
}

/// Decryption Secrets Block: a TLS key log.
pub fn decryption_secrets(secrets: &[u8]) -> Vec<u8> {
    let mut body = Vec::with_capacity(secrets.len() + 8);
    body.extend_from_slice(&0x544c_534b_u32.to_le_bytes());
    body.extend_from_slice(&u32::try_from(secrets.len()).unwrap_or(0).to_le_bytes());
    body.extend_from_slice(secrets);
    block(0x0a, &body)
}
