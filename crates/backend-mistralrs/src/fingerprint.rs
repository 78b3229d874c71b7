//! The identity of a model's weights: BLAKE3 over the whole content of its files.

use std::fs::File;
use std::io::Read;
use std::path::Path;

use crate::LoadError;

const CHUNK: usize = 1 << 20;

/// Hashes the contents of `files`, in this order, each with its length in front.
pub(crate) fn fingerprint<'a>(files: impl IntoIterator<Item = &'a Path>) -> Result<[u8; 32], LoadError> {
    let mut hasher = blake3::Hasher::new_derive_key("medley model files v1");
    for path in files {
        hash_file(path, &mut hasher).map_err(LoadError::read(path))?;
    }
    Ok(*hasher.finalize().as_bytes())
}

fn hash_file(path: &Path, hasher: &mut blake3::Hasher) -> std::io::Result<()> {
    let mut file = File::open(path)?;
    hasher.update(&file.metadata()?.len().to_le_bytes());
    let mut buffer = vec![0; CHUNK];
    loop {
        match file.read(&mut buffer)? {
            0 => return Ok(()),
            read => hasher.update(&buffer[..read]),
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_changed_byte_anywhere_changes_the_fingerprint() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("weights");
        let mut bytes = vec![7u8; 2 * CHUNK + 5];
        let mut seen = Vec::new();
        for at in [None, Some(0), Some(CHUNK), Some(2 * CHUNK + 4)] {
            if let Some(at) = at {
                bytes[at] ^= 1;
            }
            std::fs::write(&path, &bytes).expect("written");
            seen.push(fingerprint([path.as_path()]).expect("hashed"));
        }
        assert!((1..seen.len()).all(|i| !seen[..i].contains(&seen[i])));
    }
}
