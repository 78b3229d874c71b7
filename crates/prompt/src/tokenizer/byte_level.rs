//! The alphabet of byte-level BPE: one printable character for each byte.
//!
//! Bytes that are printable in Latin-1 stand for themselves; the others, in ascending order, are the characters
//! from U+0100 on (Radford et al., "Language Models are Unsupervised Multitask Learners", section 2.2).

use std::sync::LazyLock;

static CHARS: LazyLock<[char; 256]> = LazyLock::new(|| {
    let mut shifted = ('\u{100}'..).take(256);
    std::array::from_fn(|byte| {
        let plain = byte as u8;
        if is_printable(plain) {
            char::from(plain)
        } else {
            shifted.next().unwrap_or('\u{fffd}')
        }
    })
});

fn is_printable(byte: u8) -> bool {
    matches!(byte, b'!'..=b'~' | 0xA1..=0xAC | 0xAE..=0xFF)
}

/// The character that stands for `byte`.
#[cfg(test)]
pub(crate) fn char_of(byte: u8) -> char {
    CHARS[usize::from(byte)]
}

/// The bytes that `text` spells, or none if a character is outside the alphabet.
pub(crate) fn bytes_of(text: &str) -> Option<Vec<u8>> {
    text.chars().map(byte_of).collect()
}

fn byte_of(c: char) -> Option<u8> {
    static BYTES: LazyLock<Vec<Option<u8>>> = LazyLock::new(|| {
        let mut bytes = vec![None; 0x200];
        for byte in 0..=255u8 {
            bytes[CHARS[usize::from(byte)] as usize] = Some(byte);
        }
        bytes
    });
    BYTES.get(c as usize).copied().flatten()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_byte_has_its_own_character() {
        for byte in 0..=255u8 {
            assert_eq!(bytes_of(&char_of(byte).to_string()), Some(vec![byte]));
        }
        assert_eq!(char_of(b' '), 'Ġ');
        assert_eq!(char_of(b'\n'), 'Ċ');
        assert_eq!(bytes_of("▁"), None);
    }
}
