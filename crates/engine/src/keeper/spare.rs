//! Folders made ahead of the steps that will live in them.

use std::{
    fs::{self, File},
    io,
    path::{Path, PathBuf},
};

use super::launch::{Launch, SPARE_FOLDERS, outputs};
use crate::{private, step::Claim, sys};

/// A folder for a step to come.
///
/// Making a folder and three files costs more than starting a shell. It is done while the step
/// before is still running; claiming a step is then one rename.
pub(super) struct SpareFolder {
    path: PathBuf,
    claim: Claim,
    outputs: [File; 2],
}

impl SpareFolder {
    pub(super) fn prepare() -> io::Result<Self> {
        let path = Path::new(SPARE_FOLDERS).join(std::process::id().to_string());
        private::create_dir(&path)?;
        let claim = Claim::create(&path.join("exit"), "")?;
        let outputs = outputs(&path)?;
        Ok(Self { path, claim, outputs })
    }

    /// No step is coming any more.
    pub(super) fn remove(self) {
        let _ = fs::remove_dir_all(self.path);
    }
}

/// Claims a step, and makes its folder unless it is there.
pub(super) fn claim(launch: &Launch, spare: Option<SpareFolder>) -> io::Result<(Claim, [File; 2])> {
    if let Some(SpareFolder { path, mut claim, outputs }) = spare {
        let renamed = if launch.has_folder {
            Err(io::Error::from_raw_os_error(libc::EINVAL))
        } else {
            sys::rename_new(&path, &launch.folder)
        };
        match renamed {
            Ok(()) => {
                claim.assign(&launch.run)?;
                return Ok((claim, outputs));
            }
            Err(error) => {
                let _ = fs::remove_dir_all(path);
                // Where a folder cannot be renamed like that, it is made like any other. One that
                // is there may be all that a lost machine left of a step: the claim decides.
                let code = error.raw_os_error();
                if !matches!(code, Some(libc::EINVAL | libc::ENOSYS | libc::EEXIST)) {
                    return Err(error);
                }
            }
        }
    }
    launch.claim()
}
