//! The transcript of a session on disk: where it is, and what it already contains.

use std::{
    fs,
    path::{Path, PathBuf},
};

use memchr::memmem;
use raymond_flow::id::SessionId;

use super::SessionPart;

/// A part of the last message of a turn. In messages of users and models the quotes would be escaped.
const ANSWERED: &[u8] = br#""stop_reason":"end_turn""#;

/// The transcript file of a session.
pub(super) struct SessionFile {
    path: PathBuf,
}

/// Where Claude keeps the transcript of a session that was begun in the directory `cwd`.
pub(super) fn path(config_dir: &Path, cwd: &str, id: &SessionId) -> String {
    let project = cwd.replace(|c: char| !c.is_ascii_alphanumeric(), "-");
    let path = config_dir.join("projects").join(project).join(format!("{id}.jsonl"));
    path.to_string_lossy().into_owned()
}

/// The parts of a session that was begun in the directory `cwd`: its transcript, the directory beside it with those of
/// its subagents and with long outputs of tools, and its list of tasks.
pub(super) fn parts(config_dir: &Path, cwd: &str, id: &SessionId) -> Vec<SessionPart> {
    let transcript = PathBuf::from(path(config_dir, cwd, id));
    let beside = transcript.with_extension("");
    let tasks = config_dir.join("tasks").join(id.as_str());
    let part = |(name, path): (&str, PathBuf)| SessionPart { name: name.to_owned(), path };
    [("transcript.jsonl", transcript), ("session", beside), ("tasks", tasks)].map(part).to_vec()
}

impl SessionFile {
    /// The transcript of session `id`, if it has one. Ids are unique, so the directory, whose name Claude
    /// derives from the working directory, need not be known.
    pub(super) fn find(config_dir: &Path, id: &SessionId) -> Option<Self> {
        let projects = fs::read_dir(config_dir.join("projects")).ok()?;
        let name = format!("{id}.jsonl");
        let mut paths = projects.flatten().map(|project| project.path().join(&name));
        paths.find(|path| path.is_file()).map(|path| Self { path })
    }

    /// Whether it contains `prompt` without an answer. The same prompt may occur several times in a
    /// session, so only its last occurrence counts.
    pub(super) fn is_left_at(&self, prompt: &str) -> bool {
        let Ok(quoted) = serde_json::to_string(prompt) else {
            return false;
        };
        let text = fs::read(&self.path).unwrap_or_default();
        let said = memmem::rfind(&text, quoted.as_bytes());
        said.is_some_and(|at| memmem::find(&text[at..], ANSWERED).is_none())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_of_a_session_lie_below_the_name_of_its_directory() {
        let id = SessionId::new("5f0c");
        let parts = parts(Path::new("/home/u/.claude"), "/work/a.b", &id);
        let paths: Vec<_> = parts.iter().map(|part| part.path.to_str().unwrap()).collect();
        let project = "/home/u/.claude/projects/-work-a-b/5f0c";
        assert_eq!(paths, [&format!("{project}.jsonl"), project, "/home/u/.claude/tasks/5f0c"]);
    }

    #[test]
    fn transcript_is_found_in_any_project_and_shows_unanswered_prompts() {
        let folder = tempfile::tempdir().unwrap();
        let id = SessionId::new("5f0c");
        assert!(SessionFile::find(folder.path(), &id).is_none());
        let project = folder.path().join("projects/-some-where");
        fs::create_dir_all(&project).unwrap();
        assert!(SessionFile::find(folder.path(), &id).is_none());
        let line = r#"{"type":"user","message":{"content":[{"text":"say \"hi\"\nto ünïcode"}]}}"#;
        fs::write(project.join("5f0c.jsonl"), line).unwrap();
        let transcript = SessionFile::find(folder.path(), &id).unwrap();
        let prompt = "say \"hi\"\nto ünïcode";
        assert!(transcript.is_left_at(prompt));
        assert!(!transcript.is_left_at("say"));
        let add = |more: &str| {
            let path = project.join("5f0c.jsonl");
            let known = fs::read_to_string(&path).unwrap();
            fs::write(path, format!("{known}\n{more}")).unwrap();
        };
        add(r#"{"message":{"content":[{"type":"tool_use"}],"stop_reason":"tool_use"}}"#);
        add(r#"{"message":{"content":[{"text":"a \"stop_reason\":\"end_turn\""}]}}"#);
        assert!(transcript.is_left_at(prompt));
        add(r#"{"message":{"content":[{"text":"hi"}],"stop_reason":"end_turn"}}"#);
        assert!(!transcript.is_left_at(prompt));
        add(line);
        assert!(transcript.is_left_at(prompt));
    }
}
