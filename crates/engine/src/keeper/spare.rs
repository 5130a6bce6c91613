//! Folders made ahead of the steps that will live in them.

use std::{
    fs::{self, File},
    io,
    path::{Path, PathBuf},
};

use super::launch::{Launch, SPARE_FOLDERS, outputs};
use crate::{step::Claim, sys};

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
        fs::create_dir(&path)?;
        let claim = Claim::create(&path.join("exit"))?;
        let outputs = outputs(&path)?;
        Ok(Self { path, claim, outputs })
    }

    /// No step is coming any more.
    pub(super) fn remove(self) {
        let _ = fs::remove_dir_all(self.path);
    }
}

/// Where a step lives.
pub(super) enum Place {
    /// Here, once it is claimed.
    Spare(SpareFolder),
    /// In a folder of its own, which is claimed.
    Own(Claim, [File; 2]),
}

impl Place {
    /// Finds a place for a step: a spare folder if that will do.
    pub(super) fn find(launch: &Launch, spare: Option<SpareFolder>) -> io::Result<Self> {
        match spare {
            Some(spare) if !launch.has_folder => Ok(Self::Spare(spare)),
            spare => {
                spare.into_iter().for_each(SpareFolder::remove);
                Self::own(launch)
            }
        }
    }

    /// Claims the step, and makes its folder unless it is there.
    pub(super) fn own(launch: &Launch) -> io::Result<Self> {
        launch.claim().map(|(claim, outputs)| Self::Own(claim, outputs))
    }

    /// Claims the step, unless it is. `false` if this cannot be its place.
    pub(super) fn claim(&self, launch: &Launch) -> io::Result<bool> {
        let Self::Spare(SpareFolder { path, .. }) = self else {
            return Ok(true);
        };
        let Err(error) = sys::rename_new(path, &launch.folder) else {
            return Ok(true);
        };
        let _ = fs::remove_dir_all(path);
        // Where a folder cannot be renamed like that, it is made like any other. One that is there
        // may be all that a lost machine left of a step: the claim decides.
        match error.raw_os_error() {
            Some(libc::EINVAL | libc::ENOSYS | libc::EEXIST) => Ok(false),
            _ => Err(error),
        }
    }

    pub(super) fn outputs(&self) -> &[File; 2] {
        match self {
            Self::Spare(SpareFolder { outputs, .. }) | Self::Own(_, outputs) => outputs,
        }
    }

    pub(super) fn into_parts(self) -> (Claim, [File; 2]) {
        match self {
            Self::Spare(SpareFolder { claim, outputs, .. }) | Self::Own(claim, outputs) => {
                (claim, outputs)
            }
        }
    }
}
