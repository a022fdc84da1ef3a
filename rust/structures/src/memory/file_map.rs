//! Files that are mapped into memory.

use std::fs::File;
use std::io;
use std::sync::Arc;

use memmap2::Mmap;

/// A file's bytes, which are read from the file when they are first accessed.
///
/// ```
/// use std::io::Write;
///
/// use tidegate_structures::memory::file_map::FileMap;
///
/// let path = std::env::temp_dir().join(format!("tidegate-map-{}", std::process::id()));
/// std::fs::File::create(&path)?.write_all(b"bytes")?;
/// let map = FileMap::open(&std::fs::File::open(&path)?)?;
/// std::fs::remove_file(&path)?;
/// assert_eq!(map.as_ref(), b"bytes");
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct FileMap(Arc<Mmap>);

impl FileMap {
    /// Maps a file, which must not be modified or truncated afterwards. It can be renamed, replaced
    /// or removed.
    pub fn open(file: &File) -> io::Result<Self> {
        // SAFETY: the bytes must not change while they are borrowed. Files that this crate's users
        // map are written under a temporary name, and are never modified after they have been
        // renamed, so only a foreign program could change the bytes. The mapping is private and is
        // never written, so this process cannot change them.
        let map = unsafe { Mmap::map(file)? };
        Ok(FileMap(Arc::new(map)))
    }
}

impl AsRef<[u8]> for FileMap {
    #[inline]
    fn as_ref(&self) -> &[u8] {
        &self.0
    }
}
