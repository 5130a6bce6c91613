//! A folder as one archive, the same bytes whenever and wherever it is made.

use std::{
    fs,
    io::{self, Cursor, Write as _},
    path::{Path, PathBuf},
};

use thiserror::Error;
use zip::{CompressionMethod, DateTime, ZipWriter, result::ZipError, write::SimpleFileOptions};

use super::{
    archive::{FILE_BYTES_MAX, FILES_MAX, TOTAL_BYTES_MAX},
    source::list_folder,
};

/// Why a folder cannot become an archive.
#[derive(Debug, Error)]
pub enum PackError {
    /// It cannot be read.
    #[error("cannot read {}", path.display())]
    Io {
        /// What was read.
        path: PathBuf,
        /// Why not.
        source: io::Error,
    },
    /// Archives of so many files are refused.
    #[error("{} has more than {FILES_MAX} files", path.display())]
    TooMany {
        /// The folder.
        path: PathBuf,
    },
    /// Archives with so much in them are refused.
    #[error("{} makes it larger than the {limit} bytes that are allowed", path.display())]
    TooLarge {
        /// The file.
        path: PathBuf,
        /// The limit that it passes.
        limit: u64,
    },
    /// The archive could not be written.
    #[error("the archive cannot be made")]
    Zip(#[from] ZipError),
}

/// The files directly in `folder` as a zip archive. Hidden files stay out.
///
/// Reproducible byte for byte: files in the order of their names, all with one time and one mode, and
/// stored as they are. Compressed bytes would change with the version of the compressor.
pub fn pack(folder: &Path) -> Result<Vec<u8>, PackError> {
    let io = |path: &Path| {
        let path = path.to_owned();
        move |source| PackError::Io { path, source }
    };
    let listing = list_folder(folder).map_err(io(folder))?;
    let names: Vec<&str> = listing.names().filter(|name| !name.starts_with('.')).collect();
    if names.len() > FILES_MAX {
        return Err(PackError::TooMany { path: folder.to_owned() });
    }
    let options = SimpleFileOptions::default()
        .compression_method(CompressionMethod::Stored)
        .last_modified_time(DateTime::default())
        .unix_permissions(0o644);
    let mut archive = ZipWriter::new(Cursor::new(Vec::new()));
    let mut total = 0;
    for name in names {
        let path = folder.join(name);
        let bytes = fs::read(&path).map_err(io(&path))?;
        let size = bytes.len() as u64;
        total += size;
        for (size, limit) in [(size, FILE_BYTES_MAX), (total, TOTAL_BYTES_MAX)] {
            if size > limit {
                return Err(PackError::TooLarge { path, limit });
            }
        }
        archive.start_file(name, options)?;
        archive.write_all(&bytes).map_err(ZipError::from)?;
    }
    Ok(archive.finish()?.into_inner())
}
