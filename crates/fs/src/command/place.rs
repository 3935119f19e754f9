//! Where things are: cache folders, and the list of mounts.

use std::os::unix::fs::DirBuilderExt;
use std::path::{Component, Path, PathBuf};

use super::failed;
use oscope_sys::error::Failure;

/// `$XDG_CACHE_HOME/oscope/fs`, else `~/.cache/oscope/fs`.
pub fn caches() -> Result<PathBuf, Failure> {
    let absolute = |name: &str| {
        std::env::var_os(name)
            .map(PathBuf::from)
            .filter(|path| path.is_absolute())
    };
    absolute("XDG_CACHE_HOME")
        .or_else(|| Some(absolute("HOME")?.join(".cache")))
        .map(|home| home.join("oscope/fs"))
        .ok_or_else(|| {
            failed(
                "neither XDG_CACHE_HOME nor HOME says where caches go",
                "set one of them to an absolute path",
            )
        })
}

/// The cache folder of a target where none is named: one for each key.
pub fn cache_of(key: &str) -> Result<PathBuf, Failure> {
    Ok(caches()?.join(short_digest(key.as_bytes())))
}

/// The folder of links, one for each mount of this user, to their cache folders.
pub fn mounts() -> Result<PathBuf, Failure> {
    Ok(caches()?.join("mounts"))
}

/// The first 16 hexadecimal digits of the BLAKE3 digest.
pub fn short_digest(bytes: &[u8]) -> String {
    blake3::hash(bytes).to_hex()[..16].to_owned()
}

/// Make a folder that only this user may enter, and those above it; one that is there is left as it is.
pub fn make_private(folder: &Path) -> Result<(), Failure> {
    std::fs::DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(folder)
        .map_err(|error| {
            failed(
                format!("the folder {} cannot be made ({error})", folder.display()),
                "name another folder, or fix this one",
            )
        })
}

/// `path` as an absolute one without `.`, `..` and links, although its last part may be a mount whose process is dead,
/// or not there at all.
pub fn absolute(path: &Path) -> Result<PathBuf, Failure> {
    if let Ok(found) = path.canonicalize() {
        return Ok(found);
    }
    let whole = std::path::absolute(path).map_err(|error| {
        failed(
            format!("{}: {error}", path.display()),
            "name a folder by its path",
        )
    })?;
    let (Some(Component::Normal(name)), Some(parent)) =
        (whole.components().next_back(), whole.parent())
    else {
        return Ok(whole);
    };
    Ok(parent
        .canonicalize()
        .map_or_else(|_| whole.clone(), |parent| parent.join(name)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_is_absolute_although_its_last_part_is_missing() {
        let folder = tempfile::tempdir().unwrap();
        let real = folder.path().canonicalize().unwrap();
        std::fs::create_dir(real.join("there")).unwrap();
        std::os::unix::fs::symlink("there", real.join("link")).unwrap();
        assert_eq!(
            absolute(&real.join("link/../there")).unwrap(),
            real.join("there")
        );
        assert_eq!(
            absolute(&real.join("link/none")).unwrap(),
            real.join("there/none")
        );
    }
}
