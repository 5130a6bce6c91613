//! Checks whether Claude Code can be used: its version and its login.

use serde::Deserialize;

use super::super::{Checkup, CheckupAnswer, Diagnosis, Versions, checkup::first_words};

pub(super) const VERSIONS: Versions =
    Versions { package: "@anthropic-ai/claude-code", oldest: [2, 1, 197], tested: [2, 1, 328] };

/// What `claude auth status` prints.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct AuthStatus {
    logged_in: bool,
    #[serde(default)]
    auth_method: String,
}

pub(super) fn checkups(program: &str) -> Vec<Checkup> {
    let command = |arguments: &[&str]| {
        let words = [program].into_iter().chain(arguments.iter().copied());
        words.map(str::to_owned).collect()
    };
    vec![
        Checkup { what: "version", command: command(&["--version"]), judge: version },
        Checkup { what: "login", command: command(&["auth", "status"]), judge: login },
    ]
}

fn version(answer: &CheckupAnswer) -> Diagnosis {
    VERSIONS.judge(answer)
}

fn login(answer: &CheckupAnswer) -> Diagnosis {
    match serde_json::from_str::<AuthStatus>(&answer.stdout) {
        Ok(AuthStatus { logged_in: true, auth_method }) => {
            Diagnosis::Good(format!("logged in ({auth_method})"))
        }
        Ok(AuthStatus { logged_in: false, .. }) => Diagnosis::Bad {
            found: "not logged in".to_owned(),
            advice: "log in: run `claude` once, or set ANTHROPIC_API_KEY".to_owned(),
        },
        Err(_) => Diagnosis::Doubtful {
            found: format!("does not tell whether it is logged in: {}", first_words(answer)),
            advice: "if runs fail with `Not logged in`, run `claude` once".to_owned(),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answer(exit_code: i32, stdout: &str) -> CheckupAnswer {
        CheckupAnswer {
            exit_code: Some(exit_code),
            stdout: stdout.to_owned(),
            stderr: "Error: broken".to_owned(),
        }
    }

    #[test]
    fn version_is_good_from_the_oldest_one_on_and_a_newer_one_than_tested_is_told() {
        let of = |text: &str| version(&answer(0, text));
        assert_eq!(of("2.1.197 (Claude Code)\n"), Diagnosis::Good("2.1.197".to_owned()));
        assert_eq!(of("2.1.328 (Claude Code)\n"), Diagnosis::Good("2.1.328".to_owned()));
        let newer = Diagnosis::Good("tested up to 2.1.328; this is 2.10.0".to_owned());
        assert_eq!(of("2.10.0 (Claude Code)\n"), newer);
        assert!(matches!(of("2.1.9 (Claude Code)"), Diagnosis::Doubtful { .. }));
        assert!(matches!(of("what?"), Diagnosis::Bad { .. }));
        let broken = version(&answer(1, ""));
        assert!(matches!(broken, Diagnosis::Bad { found, .. } if found.ends_with("Error: broken")));
    }

    #[test]
    fn login_is_what_claude_says() {
        let no = "{\n  \"loggedIn\": false,\n  \"authMethod\": \"none\"\n}";
        assert!(matches!(login(&answer(1, no)), Diagnosis::Bad { .. }));
        let yes = no.replace("false", "true").replace("none", "api_key");
        assert_eq!(login(&answer(0, &yes)), Diagnosis::Good("logged in (api_key)".to_owned()));
        assert!(matches!(login(&answer(1, "unknown command")), Diagnosis::Doubtful { .. }));
    }
}
