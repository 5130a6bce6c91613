//! The files and environment that a run on this machine can read.

use std::{
    cell::RefCell,
    collections::{HashMap, HashSet},
    fs, io,
    path::{Path, PathBuf},
    time::{Duration, SystemTime},
};

use raymond_flow::{
    coding_agent::CodingAgents,
    payload::Payload,
    scope::Listing,
    source::{Diagnostic, Platform},
    world::{Checkout, World, WorldError},
};

use super::{
    ScopeError,
    archive::{self, FILE_BYTES_MAX, Files, Yaml},
    source::{is_packed, list_folder, plain},
};
use crate::{
    asks,
    exec::host::Mapping,
    store::results::Results,
    sys::clock,
    trust::{private, regular},
    worktree,
};

/// A directory of state files, and the environment of this process.
#[derive(Debug)]
pub(crate) struct DiskWorld {
    folder: PathBuf,
    /// The files that were extracted to `folder`, if any were: a coding agent that may write below the state directory could
    /// change them there.
    extracted: Option<Files>,
    /// The YAML from which `folder` was extracted. As it was then: the line of a mistake is looked up in it.
    yaml: Option<Yaml>,
    /// Where values lie that a prompt names by their file.
    values: PathBuf,
    /// The long results of the run.
    results: Results,
    /// Where agents have their private directories.
    agents: PathBuf,
    /// The names of the environment variables. Read once: they do not change while a run is open.
    variables: HashSet<String>,
    /// By folder of the scope: the last listing, and the modification time of the directory when it was made.
    listed: RefCell<HashMap<String, (SystemTime, Listing)>>,
    /// The last error of listing the directory, until [`take_failure`](Self::take_failure) returns it.
    failure: RefCell<Option<io::Error>>,
    /// The coding agents of the run.
    coding_agents: CodingAgents,
    /// Where the directory of the run is, if not where the run says: for one step of a host, then for the next.
    mapping: RefCell<Option<Mapping>>,
}

/// File systems store times in ticks. A directory that changed less than this before it was listed
/// may change again in the same tick, so that listing is not cached.
const TICK: Duration = Duration::from_millis(100);

impl DiskWorld {
    /// The world of a run whose files are at `scope`. An archive is extracted into `private`, so that
    /// its scripts can be executed.
    pub(crate) fn open(
        scope: &Path,
        private: &Path,
        coding_agents: CodingAgents,
    ) -> Result<Self, ScopeError> {
        let (folder, extracted, yaml) = if is_packed(scope) {
            let (files, yaml) = archive::extract(scope, private)
                .map_err(|source| ScopeError::Archive { path: scope.to_owned(), source })?;
            (private.to_owned(), Some(files), yaml)
        } else {
            (scope.to_owned(), None, None)
        };
        let names = std::env::vars_os().filter_map(|(name, _)| name.into_string().ok());
        let (listed, failure) = (RefCell::default(), RefCell::new(None));
        // Beside the extracted files, in the directory of the run.
        let values = private.with_file_name("values");
        let results = Results::new(private.with_file_name("results"));
        let agents = private.with_file_name("agents");
        let (variables, mapping) = (names.collect(), RefCell::new(None));
        Ok(Self {
            folder,
            extracted,
            yaml,
            values,
            results,
            agents,
            variables,
            listed,
            failure,
            coding_agents,
            mapping,
        })
    }

    /// The directory of the workflow, or that of its extracted files.
    pub(crate) fn scope(&self) -> &Path {
        &self.folder
    }

    /// From now on, paths of the run mean those to which they are mapped.
    pub(crate) fn set_mapping(&self, mapping: Option<Mapping>) {
        self.mapping.replace(mapping);
    }

    /// The path on this machine of a path that the run has.
    pub(crate) fn real(&self, path: &str) -> String {
        self.mapping.borrow().as_ref().map_or_else(|| path.to_owned(), |map| map.real(path))
    }

    /// The path for the run of a path on this machine; `None` if it has none.
    fn logical(&self, path: &str) -> Option<String> {
        self.mapping
            .borrow()
            .as_ref()
            .map_or_else(|| Some(path.to_owned()), |map| map.logical(path))
    }

    /// The files in a folder of the scope. Listed again whenever the folder has changed.
    fn list(&self, folder: &str) -> io::Result<Listing> {
        let path = self.place(folder)?;
        let changed = fs::metadata(&path)?.modified()?;
        let mut listed = self.listed.borrow_mut();
        if let Some((when, listing)) = listed.get(folder)
            && *when == changed
        {
            return Ok(listing.clone());
        }
        let now = SystemTime::now();
        let listing = list_folder(&path)?;
        if now.duration_since(changed).is_ok_and(|age| age > TICK) {
            listed.insert(folder.to_owned(), (changed, listing.clone()));
        } else {
            listed.remove(folder);
        }
        Ok(listing)
    }

    /// The directory of a folder of the scope. Refused if a link is on the way to it, which may lead out of
    /// the scope.
    pub(crate) fn place(&self, folder: &str) -> io::Result<PathBuf> {
        let mut path = self.folder.clone();
        for name in folder.split_terminator('/') {
            path.push(name);
            let is_inside = !name.is_empty() && !name.starts_with('.');
            if !is_inside || !fs::symlink_metadata(&path)?.is_dir() {
                let why = format!("{} is not a directory of the workflow", path.display());
                return Err(io::Error::new(io::ErrorKind::NotADirectory, why));
            }
        }
        Ok(path)
    }

    /// One of the extracted files. All of them are put right: the next step may start a script.
    fn restored(&self, files: &Files, name: &str) -> io::Result<Vec<u8>> {
        for (name, bytes) in files {
            let path = self.folder.join(name);
            if regular::read(&path, FILE_BYTES_MAX).ok().as_ref() != Some(bytes) {
                private::write(&path, bytes)?;
            }
        }
        files.get(name).cloned().ok_or_else(|| io::ErrorKind::NotFound.into())
    }

    /// The error of listing the directory since the last call, if there was one. A verdict on an answer
    /// that was reached without the listing says nothing about the agent.
    pub(crate) fn take_failure(&self) -> Option<io::Error> {
        self.failure.take()
    }

    /// The path of a folder of the scope, without a slash at its end.
    pub(crate) fn folder_of(&self, folder: &str) -> PathBuf {
        let mut path = self.folder.clone();
        path.extend(folder.split_terminator('/'));
        path
    }

    /// The directory with the state files.
    pub(crate) fn folder(&self) -> &Path {
        &self.folder
    }
}

impl World for DiskWorld {
    fn platform(&self) -> Platform {
        Platform::HERE
    }

    fn listing(&self, folder: &str) -> Result<Listing, WorldError> {
        self.list(folder).map_err(|error| {
            let what = format!("cannot list {}", self.folder_of(folder).display());
            let why = error.to_string();
            self.failure.replace(Some(error));
            WorldError { what, why }
        })
    }

    fn read(&self, name: &str) -> Result<Vec<u8>, WorldError> {
        let folder = name.rfind('/').and_then(|at| name.get(..=at)).unwrap_or_default();
        let read = self.place(folder);
        let read = read.and_then(|_| match &self.extracted {
            Some(files) => self.restored(files, name),
            None => regular::read_in(&self.folder, name, FILE_BYTES_MAX),
        });
        read.map_err(|error| WorldError {
            what: format!("cannot read {}", self.folder.join(name).display()),
            why: error.to_string(),
        })
    }

    fn locate(&self, found: &mut Diagnostic) {
        if let Some(yaml) = &self.yaml {
            yaml.read.place_diagnostic(found, &yaml.name, &yaml.text);
        }
    }

    fn directory(&self, path: &str) -> Option<String> {
        let path = self.real(path);
        let real = plain(fs::canonicalize(&path).ok()?);
        // A link can lead to a name that is not UTF-8. The path as written means the same directory.
        let text = real.to_str().unwrap_or(&path).to_owned();
        real.is_dir().then_some(text).and_then(|text| self.logical(&text))
    }

    fn has_variable(&self, name: &str) -> bool {
        self.variables.contains(name)
    }

    fn value_file(&self, fingerprint: &str) -> String {
        self.values.join(fingerprint).to_string_lossy().into_owned()
    }

    fn text(&self, payload: &Payload) -> Result<String, WorldError> {
        self.results.text(payload).map_err(|error| WorldError {
            what: "cannot put the result into the prompt".to_owned(),
            why: match error.kind() {
                io::ErrorKind::FileTooLarge => {
                    format!("{error}; {{{{result_file}}}} names a file with it")
                }
                _ => error.to_string(),
            },
        })
    }

    fn agent_folder(&self, agent: &str) -> String {
        self.agents.join(agent).to_string_lossy().into_owned()
    }

    fn checkout(&self, directory: &str) -> Result<Checkout, String> {
        let checkout = worktree::checkout(&self.real(directory))?;
        let repository = self.logical(&checkout.repository).unwrap_or(checkout.repository);
        Ok(Checkout { repository, ..checkout })
    }

    fn attachment(&self, folder: &str, path: &str) -> Result<(), String> {
        let folder = self.real(folder);
        asks::check_attachment(Path::new(&folder), path).map_err(|error| error.to_string())
    }

    fn now_ms(&self) -> u64 {
        clock::now_ms()
    }

    fn coding_agents(&self) -> &CodingAgents {
        &self.coding_agents
    }
}
