//! What a turn may use, for coding agents whose tools are allowed one by one.
//!
//! A workflow can only narrow what its user allows. Without `--dangerously-skip-permissions` that is reading and editing
//! files, and the tools that the settings list; with it, everything.

use raymond_flow::machine::{FailureClass, TurnFailure, TurnSettings};

/// The permissions that a state may ask for, and whether they include edits. None allows more than the first. `manual` is
/// the newer name of `default`.
const MODES: [(&str, bool); 4] =
    [("acceptEdits", true), ("default", false), ("manual", false), ("plan", false)];
/// The permissions that allow everything.
const EVERYTHING: &str = "bypassPermissions";

/// The tools of a coding agent that need no setting.
pub(super) struct Tools {
    /// Those that only read.
    pub(super) reading: &'static [&'static str],
    /// Those that edit files.
    pub(super) editing: &'static [&'static str],
}

impl Tools {
    /// The only tools that a turn has; `None` is all. A workflow can only narrow what its user allows.
    pub(super) fn allowed(
        &self,
        settings: &TurnSettings,
        name: &str,
        allowed: &[String],
    ) -> Result<Option<Vec<String>>, TurnFailure> {
        let refused = |message| Err(TurnFailure { class: FailureClass::Misconfigured, message });
        let mode = settings.permissions.as_deref();
        let may_skip = settings.skip_permissions;
        if mode == Some(EVERYTHING) && !may_skip {
            return refused(format!(
                "the state asks for the permissions `{EVERYTHING}`, which only a run with `--dangerously-skip-permissions` has"
            ));
        }
        if let Some(tools) = &settings.tools {
            let is_known =
                |tool: &str| self.reading.contains(&tool) || self.editing.contains(&tool);
            let is_allowed = |tool: &&String| may_skip || is_known(tool) || allowed.contains(*tool);
            if let Some(tool) = tools.iter().find(|tool| !is_allowed(tool)) {
                return refused(format!(
                    "the state asks for the tool `{tool}`, which the settings do not allow: add it to `tools` under \
                 `[agents.{name}]` in config.toml, or run with `--dangerously-skip-permissions`"
                ));
            }
            return Ok(Some(tools.clone()));
        }
        if may_skip && (mode.is_none() || mode == Some(EVERYTHING)) {
            return Ok(None);
        }
        let asked = mode.unwrap_or("acceptEdits");
        let Some((_, edits)) = MODES.iter().find(|(name, _)| *name == asked) else {
            let known: Vec<_> = MODES.iter().map(|(name, _)| *name).chain([EVERYTHING]).collect();
            return refused(format!("unknown permissions `{asked}`; known: {}", known.join(", ")));
        };
        let owned =
            |tools: &[&str]| tools.iter().map(|tool| (*tool).to_owned()).collect::<Vec<_>>();
        let mut tools = owned(self.reading);
        if *edits {
            tools.extend(owned(self.editing));
            tools.extend(allowed.iter().cloned());
        }
        Ok(Some(tools))
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "in tests a panic is the message")]
mod tests {
    use raymond_flow::{id::SessionId, machine::SessionPlan};

    use super::*;
    use crate::testing::turn;

    const TOOLS: Tools = Tools { reading: &["read", "grep"], editing: &["edit", "write"] };

    #[test]
    fn tools_are_what_the_user_and_the_state_allow() {
        let given = |skips: bool, tools_asked: Option<&[&str]>, permissions: Option<&str>| {
            let mut settings = turn(SessionPlan::Fresh { id: SessionId::new("s") }).settings;
            settings.skip_permissions = skips;
            settings.tools =
                tools_asked.map(|tools| tools.iter().map(|tool| (*tool).to_owned()).collect());
            settings.permissions = permissions.map(str::to_owned);
            let tools = TOOLS.allowed(&settings, "own", &["mine".to_owned()]);
            tools.map(|tools| tools.map(|tools| tools.join(","))).map_err(|it| it.message)
        };
        let some = |text: &str| Ok(Some(text.to_owned()));
        assert_eq!(given(false, None, None), some("read,grep,edit,write,mine"));
        assert_eq!(given(true, None, None), Ok(None));
        for mode in ["default", "manual", "plan"] {
            assert_eq!(given(true, None, Some(mode)), some("read,grep"));
        }
        assert_eq!(given(false, Some(&["read", "mine"]), None), some("read,mine"));
        assert!(given(false, Some(&["bash"]), None).unwrap_err().contains("`bash`"));
        assert_eq!(given(true, Some(&["bash"]), None), some("bash"));
        assert!(given(false, None, Some("bypassPermissions")).is_err());
        assert!(given(true, None, Some("dontAsk")).unwrap_err().contains("unknown permissions"));
    }
}
