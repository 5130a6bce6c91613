//! The table of the coding agents that the tests run: `agents.txt`, which `scripts/install-agents` reads, too. Which version of
//! each a test gets, and where it is.

use std::{
    env, fs,
    path::{Path, PathBuf},
};

const TABLE: &str = include_str!("../agents.txt");

/// A row of the table: a coding agent, or a tool that one needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Row {
    /// Its name: that in frontmatter, if Raymond knows it by name.
    pub name: &'static str,
    /// Its npm package.
    pub package: &'static str,
    /// The oldest version that Raymond supports. `None` for a tool.
    pub oldest: Option<&'static str>,
    /// A version that neither the oldest nor the tested one stands for, if there is one.
    between: Option<&'static str>,
    /// The newest version that Raymond is tested with.
    pub tested: &'static str,
    /// Its program below `node_modules`; `*` stands for any part of one name.
    program: &'static str,
}

/// All rows.
///
/// # Panics
///
/// If a row has a column too few: tests on another version than the table says would be worse than none.
pub fn rows() -> Vec<Row> {
    let lines = TABLE.lines().map(str::trim);
    let rows = lines.filter(|line| !line.is_empty() && !line.starts_with('#'));
    rows.map(|line| {
        let columns: Vec<_> = line.split_whitespace().collect();
        let [name, package, oldest, between, tested, program] = columns[..] else {
            panic!("agents.txt: six columns expected: {line}");
        };
        let [oldest, between] = [oldest, between].map(|it| (it != "-").then_some(it));
        Row { name, package, oldest, between, tested, program }
    })
    .collect()
}

/// The row with this name.
///
/// # Panics
///
/// If there is none.
pub fn row(name: &str) -> Row {
    let found = rows().into_iter().find(|row| row.name == name);
    found.unwrap_or_else(|| panic!("agents.txt has no row `{name}`"))
}

/// Which version of every coding agent the tests run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Selection {
    /// The oldest that Raymond supports.
    Oldest,
    /// One that differs from both ends, where there is one; the tested one of the others.
    Between,
    /// The newest that it is tested with.
    Tested,
    /// The newest that there was at the last `scripts/install-agents --newest`.
    Newest,
}

impl Selection {
    /// What `RAYMOND_TEST_AGENTS` says; if it is not set, the tested ones.
    ///
    /// # Panics
    ///
    /// If it says something else.
    pub fn from_environment() -> Self {
        match env::var("RAYMOND_TEST_AGENTS").as_deref() {
            Err(_) | Ok("" | "tested") => Self::Tested,
            Ok("oldest") => Self::Oldest,
            Ok("between") => Self::Between,
            Ok("newest") => Self::Newest,
            Ok(other) => {
                panic!("RAYMOND_TEST_AGENTS is `{other}`, not oldest, between, tested or newest")
            }
        }
    }

    /// The option of `scripts/install-agents`.
    fn option(self) -> &'static str {
        match self {
            Self::Oldest => " --oldest",
            Self::Between => " --between",
            Self::Tested => "",
            Self::Newest => " --newest",
        }
    }
}

impl Row {
    /// The version that the tests run.
    pub fn version(&self, selection: Selection) -> String {
        let tested = || self.tested.to_owned();
        match selection {
            Selection::Oldest => self.oldest.map_or_else(tested, str::to_owned),
            Selection::Between => self.between.map_or_else(tested, str::to_owned),
            Selection::Tested => tested(),
            Selection::Newest => newest(self.name).unwrap_or_else(tested),
        }
    }

    /// The directory that `scripts/install-agents` installs it to.
    fn directory(&self, selection: Selection) -> PathBuf {
        agents_folder().join(format!("{}-{}", self.name, self.version(selection)))
    }

    /// Its program, or why it is missing and how to get it.
    ///
    /// # Panics
    ///
    /// If it is missing although `RAYMOND_TEST_AGENTS_REQUIRED` is 1: where it is expected, silently skipped tests would be
    /// worse than none.
    pub fn find(&self, selection: Selection) -> Result<PathBuf, String> {
        let folder = self.directory(selection);
        let program = matching(&folder.join("node_modules"), self.program);
        program.and_then(|program| program.canonicalize().ok()).ok_or_else(|| {
            let (folder, option) = (folder.display(), selection.option());
            let why = format!(
                "{} is not in {folder}; `scripts/install-agents{option}` puts it there",
                self.name
            );
            let required = env::var_os("RAYMOND_TEST_AGENTS_REQUIRED").is_some_and(|it| it == "1");
            assert!(!required, "RAYMOND_TEST_AGENTS_REQUIRED is set, but {why}");
            why
        })
    }
}

/// The version that `scripts/install-agents --newest` found last.
fn newest(name: &str) -> Option<String> {
    let text = fs::read_to_string(agents_folder().join("newest.txt")).ok()?;
    let mut pairs = text.lines().filter_map(|line| line.split_once(' '));
    pairs.find_map(|(agent, version)| (agent == name).then(|| version.to_owned()))
}

/// The first file below `folder` whose path matches `pattern`, by name.
fn matching(folder: &Path, pattern: &str) -> Option<PathBuf> {
    let Some((name, rest)) = pattern.split_once('/') else {
        return of_name(folder, pattern).into_iter().find(|path| path.is_file());
    };
    of_name(folder, name).into_iter().find_map(|path| matching(&path, rest))
}

/// What is in `folder` under a name that has at most one `*`.
fn of_name(folder: &Path, name: &str) -> Vec<PathBuf> {
    let Some((start, end)) = name.split_once('*') else {
        return vec![folder.join(name)];
    };
    let is_of_it = |path: &PathBuf| {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        name.strip_prefix(start).is_some_and(|rest| rest.ends_with(end))
    };
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let mut found: Vec<_> = entries.map(|entry| entry.path()).filter(is_of_it).collect();
    found.sort();
    found
}

/// The directory with all installed coding agents.
fn agents_folder() -> PathBuf {
    target_folder().join("agents")
}

/// The target directory as `scripts/install-agents` sees it: relative to the workspace. Tests of `crates/cluster`, which is
/// another workspace, have another one, and name this one in `RAYMOND_TARGET_DIR`.
fn target_folder() -> PathBuf {
    let workspace = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let named = ["RAYMOND_TARGET_DIR", "CARGO_TARGET_DIR"].into_iter().find_map(env::var_os);
    workspace.join(named.unwrap_or_else(|| "target".into()))
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "in tests a panic is the message")]
mod tests {
    use super::*;

    fn numbers(version: &str) -> Vec<u64> {
        version.split('.').map(|part| part.parse().unwrap()).collect()
    }

    #[test]
    fn every_row_has_versions_in_order_and_a_name_of_its_own() {
        let rows = rows();
        for row in &rows {
            let versions = [Selection::Oldest, Selection::Between, Selection::Tested];
            let versions = versions.map(|selection| numbers(&row.version(selection)));
            assert!(versions.is_sorted(), "{row:?}");
            assert_eq!(rows.iter().filter(|other| other.name == row.name).count(), 1, "{row:?}");
        }
    }

    #[test]
    fn star_stands_for_any_part_of_one_name() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("@a/code-linux-x64/bin/code");
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::create_dir_all(folder.path().join("@a/code")).unwrap();
        fs::write(&path, "").unwrap();
        let of = |pattern| matching(folder.path(), pattern);
        assert_eq!(of("@a/code-*/bin/code"), Some(path.clone()));
        assert_eq!(of("@a/*/*/code"), Some(path.clone()));
        assert_eq!(of("@a/code-linux-x64/bin/code"), Some(path));
        assert_eq!(of("@a/code*/code"), None);
        assert_eq!(of("@a/*-x64/bin"), None);
    }
}
