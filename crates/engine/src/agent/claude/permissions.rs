//! What a turn may do without asking: what the state asks for, as far as the user's settings allow it.
//!
//! A workflow can only narrow what its user allows. Without `--dangerously-skip-permissions` that is what Claude's
//! own settings allow, edits of files, and the tools listed under `[agents.claude]`; with it, everything.

use std::path::{Component, Path, PathBuf};

use raymond_flow::machine::{FailureClass, TurnFailure, TurnSettings};

use super::ClaudeConfig;

/// The mode of turns whose state asks for none.
const EDITS: &str = "acceptEdits";
/// The modes that a state may ask for. None allows more than the first.
const MODES: [&str; 4] = [EDITS, DEFAULT, MANUAL, PLAN];
/// The mode that asks, by the name that all versions of Claude Code take, and by its newer name.
const DEFAULT: &str = "default";
const MANUAL: &str = "manual";
/// The mode in which nothing is changed.
pub(super) const PLAN: &str = "plan";
/// The mode that allows everything.
const EVERYTHING: &str = "bypassPermissions";

/// Tools that a turn can use without asking anyway: they read, plan, or edit files below the directory.
const EDITING: [&str; 9] =
    ["Edit", "Glob", "Grep", "LS", "MultiEdit", "NotebookEdit", "Read", "TodoWrite", "Write"];

/// What no turn may touch below the state directory, whatever else it may: settings, journals, questions, requests, the files of
/// steps, the states of an unpacked workflow, and where git finds its settings, which start programs.
/// The agents' own directories, long values and worktrees are there, too, and are theirs.
const DENIED: [&str; 13] = [
    "../.git/**",
    "config.toml",
    "workflows/*.journal",
    "workflows/*.json",
    "workflows/*.lock",
    "workflows/*/asks/**",
    "workflows/*/cluster.json",
    "workflows/*/door/**",
    "workflows/*/scope/**",
    "workflows/*/sessions/**",
    "workflows/*/steps/**",
    "worktrees/*/*.claim",
    "worktrees/*/*/.git",
];

/// What canonical paths of Windows begin with, once their separators are those of patterns.
const VERBATIM: &str = "//?/";

/// The rules that keep a turn from editing the scripts of its workflow and what Raymond keeps of runs, from reading journals and requests, and out of the
/// directories `closed`.
pub(super) fn denied([state_dir, scope, cwd]: [&Path; 3], closed: &[PathBuf]) -> Vec<String> {
    let [state_dir, scope, cwd] = [state_dir, scope, cwd].map(real);
    let closed: Vec<_> = closed.iter().map(|folder| real(folder)).collect();
    let rule = |tool: &str, folder: &Path, name: &str| match name.strip_prefix("../") {
        None => format!("{tool}({}/{name})", pattern(folder)),
        Some(name) => {
            format!("{tool}({}/{name})", pattern(folder.parent().unwrap_or(folder)))
        }
    };
    let unread = ["workflows/*.journal", "workflows/*/door/**"];
    let edits = DENIED.iter().map(|name| rule("Edit", &state_dir, name));
    let own = edits.chain(unread.iter().map(|name| rule("Read", &state_dir, name)));
    let closed =
        closed.iter().flat_map(|folder| [rule("Edit", folder, "**"), rule("Read", folder, "**")]);
    // An agent that works in the directory of its workflow, or below it, is there to edit it.
    let is_below = scope != cwd && scope.starts_with(&cwd);
    own.chain(closed).chain(is_below.then(|| rule("Edit", &scope, "**"))).collect()
}

/// A path in a rule of Claude: a second slash makes it absolute, and it is a pattern as in `.gitignore`.
fn pattern(path: &Path) -> String {
    let mut pattern = "/".to_owned();
    let text = path.to_string_lossy();
    let text = if cfg!(windows) { text.replace('\\', "/") } else { text.into_owned() };
    for letter in text.strip_prefix(VERBATIM).unwrap_or(&text).chars() {
        match letter {
            // The rule is taken apart before its pattern is read, and both may take one for an escape: any one letter.
            '\\' => pattern.push('?'),
            '*' | '?' | '[' | ']' | '!' | '#' => pattern.extend(['\\', letter]),
            _ => pattern.push(letter),
        }
    }
    pattern
}

/// Where a path leads, which is what Claude compares: as far as it exists, without links, and without `.` and `..`.
fn real(path: &Path) -> PathBuf {
    let mut real = PathBuf::new();
    for part in path.components() {
        match part {
            Component::CurDir => {}
            Component::ParentDir => {
                real.pop();
            }
            Component::Prefix(_) | Component::RootDir | Component::Normal(_) => real.push(part),
        }
        // The prefix of a path of Windows alone is the current directory of a drive.
        if matches!(part, Component::Normal(_))
            && let Ok(found) = real.canonicalize()
        {
            real = found;
        }
    }
    real
}

/// The arguments for the permissions of a turn; an error if the state asks for more than it may have.
pub(super) fn arguments(
    config: &ClaudeConfig,
    settings: &TurnSettings,
) -> Result<Vec<String>, TurnFailure> {
    let mode = settings.permissions.as_deref();
    let may_skip = settings.skip_permissions;
    let skips = mode == Some(EVERYTHING) || (mode.is_none() && settings.tools.is_none());
    if may_skip && skips {
        return Ok(vec!["--dangerously-skip-permissions".to_owned()]);
    }
    let mode = mode.unwrap_or(EDITS);
    if mode == EVERYTHING {
        return refused(format!(
            "the state asks for the permissions `{mode}`, which only a run with `--dangerously-skip-permissions` has"
        ));
    }
    if !MODES.contains(&mode) {
        let known = MODES.join(", ");
        return refused(format!("unknown permissions `{mode}`; known: {known}, {EVERYTHING}"));
    }
    let mode = if mode == MANUAL { DEFAULT } else { mode };
    let mut arguments = vec!["--permission-mode".to_owned(), mode.to_owned()];
    let tools = settings.tools.as_deref().unwrap_or_default();
    let is_allowed = |tool: &&String| {
        may_skip || EDITING.contains(&tool.as_str()) || config.tools.contains(*tool)
    };
    if let Some(tool) = tools.iter().find(|tool| !is_allowed(tool)) {
        return refused(format!(
            "the state asks for the tool `{tool}`, which the settings do not allow: add it to `tools` under \
             `[agents.claude]` in config.toml, or run with `--dangerously-skip-permissions`"
        ));
    }
    if !tools.is_empty() {
        // One argument: the option takes as many as follow it.
        arguments.extend(["--allowedTools".to_owned(), tools.join(",")]);
    }
    Ok(arguments)
}

fn refused<T>(message: String) -> Result<T, TurnFailure> {
    Err(TurnFailure { class: FailureClass::Misconfigured, message })
}

#[cfg(test)]
mod tests {
    use raymond_flow::source::{Timeout, TurnOptions};

    use super::*;

    fn given(
        skip_permissions: bool,
        tools: Option<&[&str]>,
        permissions: Option<&str>,
    ) -> Result<String, String> {
        let config = ClaudeConfig {
            name: "claude".to_owned(),
            program: "claude".to_owned(),
            config_dir: "/nowhere".into(),
            tools: vec!["Bash(cargo test:*)".to_owned()],
            ..ClaudeConfig::default()
        };
        let settings = TurnSettings {
            agent: None,
            model: None,
            effort: None,
            timeout: Timeout::DEFAULT,
            skip_permissions,
            granted: Vec::new(),
            budget_usd: None,
            options: TurnOptions::default(),
            tools: tools.map(|tools| tools.iter().map(|tool| (*tool).to_owned()).collect()),
            permissions: permissions.map(str::to_owned),
        };
        let arguments = arguments(&config, &settings).map(|arguments| arguments.join(" "));
        arguments.map_err(|failure| failure.message)
    }

    /// What is denied to a turn in this directory of the project `/p`, whose workflow is `/p/flow`.
    fn rules(cwd: &str) -> Vec<String> {
        let places = ["/p/.raymond", "/p/flow", cwd].map(Path::new);
        denied(places, &["/h/.state/raymond".into()])
    }

    #[test]
    fn turn_above_its_workflow_does_not_edit_it_and_one_that_works_there_does() {
        let rule = "Edit(//p/flow/**)";
        for (cwd, is_denied) in
            [("/p", true), ("/", true), ("/p/flow", false), ("/p/flow/sub", false), ("/q", false)]
        {
            assert_eq!(rules(cwd).iter().any(|known| known == rule), is_denied, "{cwd}");
        }
    }

    #[test]
    fn turn_edits_nothing_that_raymond_keeps_of_runs() {
        let rules = rules("/p");
        for name in DENIED {
            let rule = match name.strip_prefix("../") {
                Some(name) => format!("Edit(//p/{name})"),
                None => format!("Edit(//p/.raymond/{name})"),
            };
            assert!(rules.contains(&rule), "{rule}: {rules:?}");
        }
    }

    #[cfg(unix)]
    #[test]
    fn rules_name_where_paths_lead() {
        let root = tempfile::tempdir().unwrap();
        let real = root.path().canonicalize().unwrap();
        std::fs::create_dir_all(real.join("p/sub")).unwrap();
        std::os::unix::fs::symlink(real.join("p/sub"), real.join("link")).unwrap();
        for state_dir in
            ["p/../p/.raymond", "p/none/../.raymond", "link/../.raymond", "p/./.raymond"]
        {
            let places = [&real.join(state_dir), &real.join("link/../flow"), &real.join("p")];
            let rules = denied(places.map(|it| &**it), &[real.join("link/../closed")]);
            let p = real.join("p");
            for rule in [
                format!("Edit(/{}/.raymond/config.toml)", p.display()),
                format!("Edit(/{}/.git/**)", p.display()),
                format!("Read(/{}/.raymond/workflows/*.journal)", p.display()),
                format!("Edit(/{}/closed/**)", p.display()),
                format!("Edit(/{}/flow/**)", p.display()),
            ] {
                assert!(rules.contains(&rule), "{state_dir}: {rule}: {rules:?}");
            }
        }
    }

    #[cfg(unix)]
    #[test]
    fn letters_that_patterns_read_stand_for_themselves() {
        assert_eq!(pattern(Path::new("/a*b?[c]!#d")), r"//a\*b\?\[c\]\!\#d");
        assert_eq!(pattern(Path::new(r"/a\b")), "//a?b");
    }

    #[test]
    fn turn_reads_no_journal_and_no_request_and_nothing_in_a_closed_directory() {
        let rules = rules("/p");
        for rule in [
            "Read(//p/.raymond/workflows/*.journal)",
            "Read(//p/.raymond/workflows/*/door/**)",
            "Read(//h/.state/raymond/**)",
            "Edit(//h/.state/raymond/**)",
            "Edit(//p/.git/**)",
        ] {
            assert!(rules.iter().any(|known| known == rule), "{rule}: {rules:?}");
        }
    }

    #[test]
    fn state_without_permissions_has_those_of_the_run() {
        assert_eq!(given(false, None, None).unwrap(), "--permission-mode acceptEdits");
        assert_eq!(given(true, None, None).unwrap(), "--dangerously-skip-permissions");
    }

    #[test]
    fn state_may_use_the_tools_that_the_settings_allow() {
        let tools = ["Bash(cargo test:*)", "Edit"];
        let expected = "--permission-mode acceptEdits --allowedTools Bash(cargo test:*),Edit";
        assert_eq!(given(false, Some(&tools), None).unwrap(), expected);
    }

    #[test]
    fn state_cannot_widen_what_the_user_allows() {
        let error = given(false, Some(&["Bash"]), None).unwrap_err();
        assert!(error.contains("asks for the tool `Bash`"), "{error}");
        assert!(given(false, Some(&["Bash(cargo test:*) Bash"]), None).is_err());
        let error = given(false, None, Some("bypassPermissions")).unwrap_err();
        assert!(error.contains("--dangerously-skip-permissions"), "{error}");
        assert!(given(true, None, Some("dontAsk")).unwrap_err().contains("unknown permissions"));
    }

    #[test]
    fn state_narrows_a_run_that_may_do_everything() {
        let narrowed = "--permission-mode acceptEdits --allowedTools Bash(ls:*)";
        assert_eq!(given(true, Some(&["Bash(ls:*)"]), None).unwrap(), narrowed);
        assert_eq!(given(true, None, Some("plan")).unwrap(), "--permission-mode plan");
        assert_eq!(given(true, None, Some("manual")).unwrap(), "--permission-mode default");
        let all = given(true, None, Some("bypassPermissions")).unwrap();
        assert_eq!(all, "--dangerously-skip-permissions");
    }
}
