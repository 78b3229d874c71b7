//! The size of a local model, read from its header: what exceeds it is refused before the weights are read.
//!
//! Nothing here decides whether a model can be run. What is missing or odd stays unknown, and loading says what is
//! wrong with it.
//!
//! A GGUF header, little-endian: `GGUF`, version u32, tensors u64, entries u64; an entry is its key, its type u32 and
//! its value; a string is its length u64 and its bytes; an array is its type u32, its length u64 and its values.

use std::{
    fs::File,
    io::{self, BufReader, Read},
    path::Path,
};

use medley_backend_mistralrs::ModelSource;
use serde_json::Value;

/// What is known of a model's size.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Size {
    /// Tokens of its context.
    pub context: Option<usize>,
    /// Its layers.
    pub layers: Option<usize>,
}

/// The size of the model at `source`, as far as it is known here.
pub fn peek(source: &ModelSource) -> Size {
    match source {
        ModelSource::Gguf(path) => {
            File::open(path).map_or(Size::default(), |file| gguf(BufReader::new(file)))
        }
        ModelSource::Folder(path) => folder(path).unwrap_or_default(),
        ModelSource::Hub { .. } => Size::default(),
    }
}

fn folder(path: &Path) -> Option<Size> {
    let config: Value = serde_json::from_slice(&std::fs::read(path.join("config.json")).ok()?).ok()?;
    let size = |key: &str| config[key].as_u64().and_then(|size| usize::try_from(size).ok());
    Some(Size {
        context: size("max_position_embeddings"),
        layers: size("num_hidden_layers"),
    })
}

fn gguf(mut file: impl Read) -> Size {
    let mut size = Size::default();
    // Where the header breaks off, what was found before it holds.
    let _ = entries(&mut file, &mut size);
    size
}

fn entries(file: &mut impl Read, size: &mut Size) -> io::Result<()> {
    if bytes::<4>(file)? != *b"GGUF" {
        return Ok(());
    }
    let (_version, _tensors, count) = (bytes::<4>(file)?, bytes::<8>(file)?, number(file)?);
    for _ in 0..count {
        let key = key(file)?;
        let kind = u32::from_le_bytes(bytes(file)?);
        let found = match key.split_once('.') {
            Some((_, "context_length")) => &mut size.context,
            Some((_, "block_count")) => &mut size.layers,
            _ => {
                skip(file, kind)?;
                continue;
            }
        };
        *found = match kind {
            4 => usize::try_from(u32::from_le_bytes(bytes(file)?)).ok(),
            10 => usize::try_from(number(file)?).ok(),
            kind => skip(file, kind).map(|()| None)?,
        };
        if size.context.is_some() && size.layers.is_some() {
            break;
        }
    }
    Ok(())
}

fn skip(file: &mut impl Read, kind: u32) -> io::Result<()> {
    match (width(kind), kind) {
        (Some(width), _) => pass(file, width),
        (None, 8) => {
            let length = number(file)?;
            pass(file, length)
        }
        (None, 9) => {
            let (kind, count) = (u32::from_le_bytes(bytes(file)?), number(file)?);
            match width(kind) {
                Some(width) => pass(file, width.saturating_mul(count)),
                None if kind == 8 => (0..count).try_for_each(|_| skip(file, 8)),
                // Lists of lists are not in use, and could be nested without end.
                None => Err(io::ErrorKind::InvalidData.into()),
            }
        }
        (None, _) => Err(io::ErrorKind::InvalidData.into()),
    }
}

fn pass(file: &mut impl Read, count: u64) -> io::Result<()> {
    match io::copy(&mut file.take(count), &mut io::sink())? {
        passed if passed == count => Ok(()),
        _ => Err(io::ErrorKind::UnexpectedEof.into()),
    }
}

/// Bytes of a value of a type of fixed width.
fn width(kind: u32) -> Option<u64> {
    match kind {
        0 | 1 | 7 => Some(1),
        2 | 3 => Some(2),
        4..=6 => Some(4),
        10..=12 => Some(8),
        _ => None,
    }
}

fn key(file: &mut impl Read) -> io::Result<String> {
    let length = number(file)?;
    let mut text = Vec::new();
    file.take(length.min(1 << 16)).read_to_end(&mut text)?;
    if text.len() as u64 != length {
        return Err(io::ErrorKind::InvalidData.into());
    }
    String::from_utf8(text).map_err(|_| io::ErrorKind::InvalidData.into())
}

fn number(file: &mut impl Read) -> io::Result<u64> {
    bytes(file).map(u64::from_le_bytes)
}

fn bytes<const N: usize>(file: &mut impl Read) -> io::Result<[u8; N]> {
    let mut bytes = [0; N];
    file.read_exact(&mut bytes)?;
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(text: &str) -> Vec<u8> {
        [&(text.len() as u64).to_le_bytes()[..], text.as_bytes()].concat()
    }

    fn entry(key: &str, kind: u32, value: &[u8]) -> Vec<u8> {
        [&text(key)[..], &kind.to_le_bytes(), value].concat()
    }

    fn header(entries: &[Vec<u8>]) -> Vec<u8> {
        let mut bytes = b"GGUF\x03\0\0\0".to_vec();
        bytes.extend(0u64.to_le_bytes());
        bytes.extend((entries.len() as u64).to_le_bytes());
        bytes.extend(entries.concat());
        bytes
    }

    fn whole() -> Vec<u8> {
        let names = [
            &8u32.to_le_bytes()[..],
            &2u64.to_le_bytes(),
            &text("a"),
            &text("bc"),
        ]
        .concat();
        let flags = [&7u32.to_le_bytes()[..], &3u64.to_le_bytes(), &[1, 0, 1]].concat();
        header(&[
            entry("general.architecture", 8, &text("llama")),
            entry("tokenizer.ggml.tokens", 9, &names),
            entry("some.flags", 9, &flags),
            entry("llama.rope.freq_base", 6, &1e4f32.to_le_bytes()),
            entry("llama.context_length", 4, &8192u32.to_le_bytes()),
            entry("llama.block_count", 10, &30u64.to_le_bytes()),
        ])
    }

    #[test]
    fn the_header_of_a_gguf_file_says_the_size() {
        let size = Size {
            context: Some(8192),
            layers: Some(30),
        };
        assert_eq!(gguf(&whole()[..]), size);
    }

    #[test]
    fn what_is_cut_or_odd_stays_unknown() {
        let whole = whole();
        for end in 0..whole.len() {
            let size = gguf(&whole[..end]);
            assert!(
                size.context.is_none_or(|context| context == 8192),
                "{end}: {size:?}"
            );
            assert_eq!(size.layers, None, "{end}");
        }
        let odd = [
            header(&[entry("llama.context_length", 99, &[])]),
            header(&[entry("a", 9, &[9, 0, 0, 0, 255, 255, 255, 255, 0, 0, 0, 0])]),
            b"GGUF\x03\0\0\0".iter().copied().chain([0xff; 40]).collect(),
            b"no model".to_vec(),
        ];
        for bytes in odd {
            assert_eq!(gguf(&bytes[..]), Size::default());
        }
    }

    #[test]
    fn the_configuration_of_a_folder_says_the_size() {
        let path = tempfile::tempdir().expect("a folder");
        let source = ModelSource::Folder(path.path().to_owned());
        assert_eq!(peek(&source), Size::default());
        let config = r#"{"max_position_embeddings": 2048, "num_hidden_layers": 4}"#;
        std::fs::write(path.path().join("config.json"), config).expect("written");
        let size = Size {
            context: Some(2048),
            layers: Some(4),
        };
        assert_eq!(peek(&source), size);
    }
}
