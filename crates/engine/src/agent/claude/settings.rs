//! The model that Claude uses when a turn names none.

use std::path::Path;

use serde::Deserialize;

use super::ClaudeConfig;

/// Claude's name for its default model.
const OWN_CHOICE: &str = "default";
/// Larger than any settings file of a user.
const SETTINGS_BYTES_MAX: u64 = 1024 * 1024;

#[derive(Deserialize)]
struct ClaudeSettings {
    model: Option<String>,
}

/// The model of a fresh session in `cwd`, by its name or alias.
///
/// A resumed session continues with the model of its last turn. After a state that names a model, a state
/// without one must therefore name the default.
pub(super) fn default_model(config: &ClaudeConfig, cwd: &Path) -> String {
    let project = cwd.join(".claude");
    let files = [
        project.join("settings.local.json"),
        project.join("settings.json"),
        config.config_dir.join("settings.json"),
    ];
    let of_file = |path: &Path| {
        let bytes = crate::trust::regular::read_linked(path, SETTINGS_BYTES_MAX).ok()?;
        serde_json::from_slice::<ClaudeSettings>(&bytes).ok()?.model
    };
    let environment = config.environment_model.clone();
    let model = environment.or_else(|| files.iter().find_map(|path| of_file(path)));
    model.unwrap_or_else(|| OWN_CHOICE.to_owned())
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn nearest_settings_name_the_model() {
        let folder = tempfile::tempdir().unwrap();
        let config = ClaudeConfig {
            name: "claude".to_owned(),
            program: "claude".to_owned(),
            config_dir: folder.path().join("home"),
            ..ClaudeConfig::default()
        };
        let cwd = folder.path().join("work");
        assert_eq!(default_model(&config, &cwd), "default");
        for (path, model) in [
            ("home/settings.json", "sonnet"),
            ("work/.claude/settings.json", "opus"),
            ("work/.claude/settings.local.json", "haiku"),
        ] {
            let path = folder.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, format!("{{\"model\": \"{model}\", \"other\": 1}}")).unwrap();
            assert_eq!(default_model(&config, &cwd), model);
        }
        let config = ClaudeConfig { environment_model: Some("x".to_owned()), ..config };
        assert_eq!(default_model(&config, &cwd), "x");
    }
}
