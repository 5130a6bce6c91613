//! What a session on disk knows already.

use std::{
    fs,
    path::{Path, PathBuf},
};

use raymond_flow::id::SessionId;

/// The transcript of a session.
pub(super) struct Transcript {
    path: PathBuf,
}

impl Transcript {
    /// The transcript of session `id`, if it has one. Ids are unique, so the folder, whose name
    /// Claude derives from the working directory, need not be known.
    pub(super) fn find(config_dir: &Path, id: &SessionId) -> Option<Self> {
        let projects = fs::read_dir(config_dir.join("projects")).ok()?;
        let name = format!("{id}.jsonl");
        let mut paths = projects.flatten().map(|project| project.path().join(&name));
        paths.find(|path| path.is_file()).map(|path| Self { path })
    }

    /// Whether `prompt` was said in it.
    pub(super) fn has(&self, prompt: &str) -> bool {
        let Ok(quoted) = serde_json::to_string(prompt) else {
            return false;
        };
        let text = fs::read(&self.path).unwrap_or_default();
        memchr::memmem::find(&text, quoted.as_bytes()).is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn transcript_is_found_in_any_project_and_knows_its_prompts() {
        let folder = tempfile::tempdir().unwrap();
        let id = SessionId::new("5f0c");
        assert!(Transcript::find(folder.path(), &id).is_none());
        let project = folder.path().join("projects/-some-where");
        fs::create_dir_all(&project).unwrap();
        assert!(Transcript::find(folder.path(), &id).is_none());
        let line = r#"{"type":"user","message":{"content":[{"text":"say \"hi\"\nto ünïcode"}]}}"#;
        fs::write(project.join("5f0c.jsonl"), line).unwrap();
        let transcript = Transcript::find(folder.path(), &id).unwrap();
        assert!(transcript.has("say \"hi\"\nto ünïcode"));
        assert!(!transcript.has("say"));
    }
}
