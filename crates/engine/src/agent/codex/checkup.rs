//! Checks whether Codex can be used: its version and its login.

use crate::agent::{Checkup, CheckupAnswer, Diagnosis, Versions, checkup::first_words};

pub(super) const VERSIONS: Versions =
    Versions { package: "@openai/codex", oldest: [0, 166, 0], tested: [0, 169, 0] };

pub(super) fn checkups(program: &str) -> Vec<Checkup> {
    let command = |arguments: &[&str]| {
        let words = [program].into_iter().chain(arguments.iter().copied());
        words.map(str::to_owned).collect()
    };
    vec![
        Checkup { what: "version", command: command(&["--version"]), judge: version },
        Checkup { what: "login", command: command(&["login", "status"]), judge: login },
    ]
}

fn version(answer: &CheckupAnswer) -> Diagnosis {
    VERSIONS.judge(answer)
}

fn login(answer: &CheckupAnswer) -> Diagnosis {
    if answer.exit_code == Some(0) {
        return Diagnosis::Good(first_words(answer).to_owned());
    }
    // A provider with a key of its own needs no login, and Codex does not say so here.
    Diagnosis::Doubtful {
        found: first_words(answer).to_owned(),
        advice: "log in: codex login; not needed if ~/.codex/config.toml names a provider with a key of its own"
            .to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answer(exit_code: i32, stdout: &str, stderr: &str) -> CheckupAnswer {
        let (stdout, stderr) = (stdout.to_owned(), stderr.to_owned());
        CheckupAnswer { exit_code: Some(exit_code), stdout, stderr }
    }

    #[test]
    fn version_is_found_behind_the_name() {
        let of = |text: &str| version(&answer(0, text, "WARNING: no aliases"));
        assert_eq!(of("codex-cli 0.166.0\n"), Diagnosis::Good("0.166.0".to_owned()));
        assert!(
            matches!(of("codex-cli 1.2.3\n"), Diagnosis::Good(found) if found.ends_with("1.2.3"))
        );
        assert!(matches!(of("codex-cli 0.99.1"), Diagnosis::Doubtful { .. }));
        assert!(matches!(of("what?"), Diagnosis::Bad { .. }));
    }

    #[test]
    fn missing_login_is_doubtful_because_a_provider_may_have_a_key() {
        let warned = "WARNING: no aliases\nNot logged in";
        let found = login(&answer(1, "", warned));
        assert!(matches!(&found, Diagnosis::Doubtful { found, .. } if found == "Not logged in"));
        let yes = login(&answer(0, "", "Logged in using ChatGPT"));
        assert_eq!(yes, Diagnosis::Good("Logged in using ChatGPT".to_owned()));
    }
}
