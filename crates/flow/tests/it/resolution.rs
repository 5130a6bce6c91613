//! Which file a name refers to, and at which state a directory starts, by the rules of both platforms.
//! Covers `raymond_flow::scope` and `raymond_flow::source::StateKind`.

use raymond_flow::{
    id::StateName,
    scope::{EntryError, Listing, ResolveError, entry, resolve},
    source::{
        Platform::{self, Unix, Windows},
        StateKind, StateKindError,
    },
};

const BOTH: [Platform; 2] = [Unix, Windows];

fn scope(files: &[&str]) -> Listing {
    Listing::new(files.iter().map(|file| (*file).to_owned()))
}

/// What `name` means among `files`.
fn meaning(name: &str, files: &[&str], platform: Platform) -> Result<StateName, ResolveError> {
    resolve(&scope(files), name, platform)
}

#[expect(clippy::unnecessary_wraps, reason = "compared with the result of `resolve`")]
fn is<E>(file: &str) -> Result<StateName, E> {
    Ok(StateName::new(file))
}

fn names(files: &[&str]) -> Vec<String> {
    files.iter().map(|file| (*file).to_owned()).collect()
}

fn not_found(
    name: &str,
    candidates: &[&str],
    suggestion: Option<&str>,
) -> Result<StateName, ResolveError> {
    Err(ResolveError::NotFound {
        name: name.to_owned(),
        candidates: names(candidates),
        suggestion: suggestion.map(str::to_owned),
    })
}

fn ambiguous(name: &str, candidates: &[&str]) -> ResolveError {
    ResolveError::Ambiguous { name: name.to_owned(), candidates: names(candidates) }
}

fn wrong_platform(name: &str, platform: Platform, file: &str) -> ResolveError {
    ResolveError::WrongPlatform { name: name.to_owned(), platform, candidates: names(&[file]) }
}

// 1.1.1 to 1.1.6: both platforms.

#[test]
fn abstract_name_finds_the_prompt_1_1_1() {
    for platform in BOTH {
        assert_eq!(meaning("NEXT", &["NEXT.md", "OTHER.md"], platform), is("NEXT.md"));
    }
}

#[test]
fn explicit_prompt_is_that_file_1_1_2() {
    for platform in BOTH {
        assert_eq!(meaning("NEXT.md", &["NEXT.md"], platform), is("NEXT.md"));
        // Nor does another file of the same stem make it doubtful.
        let files = ["NEXT.md", "NEXT.sh", "NEXT.bat"];
        assert_eq!(meaning("NEXT.md", &files, platform), is("NEXT.md"));
    }
}

#[test]
fn abstract_name_without_a_file_is_not_found_1_1_3() {
    assert_eq!(meaning("NEXT", &["A.md"], Unix), not_found("NEXT", &["NEXT.md", "NEXT.sh"], None));
    let expected = not_found("NEXT", &["NEXT.md", "NEXT.bat"], None);
    assert_eq!(meaning("NEXT", &[], Windows), expected);
    let message = expected.unwrap_err().to_string();
    assert_eq!(message, "state `NEXT` not found: there is neither NEXT.md nor NEXT.bat");
}

#[test]
fn explicit_prompt_that_is_missing_has_no_fallback_1_1_4() {
    for (platform, script) in [(Unix, "NEXT.sh"), (Windows, "NEXT.bat")] {
        let found = meaning("NEXT.md", &[script], platform);
        assert!(
            matches!(&found, Err(ResolveError::NotFound { candidates, .. })
                if *candidates == ["NEXT.md"]),
            "{found:?}"
        );
    }
}

#[test]
fn name_is_looked_for_in_its_own_scope_only_1_1_5() {
    for platform in BOTH {
        let here = scope(&["NEXT.md"]);
        let elsewhere = scope(&["OTHER.md", "sub/NEXT.md", "../NEXT.md"]);
        assert_eq!(resolve(&here, "NEXT", platform), is("NEXT.md"));
        assert!(resolve(&elsewhere, "NEXT", platform).is_err());
        assert!(resolve(&elsewhere, "NEXT.md", platform).is_err());
    }
}

#[test]
fn abstract_name_with_scripts_of_both_platforms_is_the_one_that_runs_here_1_1_6() {
    let files = ["NEXT.bat", "NEXT.sh"];
    assert_eq!(meaning("NEXT", &files, Unix), is("NEXT.sh"));
    assert_eq!(meaning("NEXT", &files, Windows), is("NEXT.bat"));
}

// 1.1.7 to 1.1.11: Unix.

#[test]
fn abstract_name_finds_the_shell_script_on_unix_1_1_7() {
    assert_eq!(meaning("NEXT", &["NEXT.sh"], Unix), is("NEXT.sh"));
}

#[test]
fn explicit_shell_script_is_that_file_on_unix_1_1_8() {
    assert_eq!(meaning("NEXT.sh", &["NEXT.sh"], Unix), is("NEXT.sh"));
    assert_eq!(meaning("NEXT.sh", &["NEXT.sh", "NEXT.md"], Unix), is("NEXT.sh"));
    let missing = meaning("NEXT.sh", &["NEXT.md", "OTHER.sh"], Unix);
    assert!(
        matches!(&missing, Err(ResolveError::NotFound { candidates, .. })
            if *candidates == ["NEXT.sh"]),
        "{missing:?}"
    );
}

#[test]
fn abstract_name_with_a_batch_file_only_cannot_run_on_unix_1_1_9() {
    let expected = wrong_platform("NEXT", Unix, "NEXT.bat");
    assert_eq!(expected.to_string(), "state `NEXT` cannot run on Unix: NEXT.bat is for Windows");
    assert_eq!(meaning("NEXT", &["NEXT.bat"], Unix), Err(expected));
}

#[test]
fn abstract_name_with_prompt_and_shell_script_is_ambiguous_on_unix_1_1_10() {
    let expected = ambiguous("NEXT", &["NEXT.md", "NEXT.sh"]);
    assert_eq!(expected.to_string(), "state `NEXT` is ambiguous: NEXT.md, NEXT.sh all match");
    assert_eq!(meaning("NEXT", &["NEXT.md", "NEXT.sh"], Unix), Err(expected.clone()));
    assert_eq!(meaning("NEXT", &["NEXT.md", "NEXT.sh", "NEXT.bat"], Unix), Err(expected));
}

#[test]
fn explicit_batch_file_cannot_run_on_unix_1_1_11() {
    let expected = Err(wrong_platform("NEXT.bat", Unix, "NEXT.bat"));
    assert_eq!(meaning("NEXT.bat", &["NEXT.bat"], Unix), expected);
    assert_eq!(meaning("NEXT.bat", &["NEXT.bat", "NEXT.sh", "NEXT.md"], Unix), expected);
}

// 1.1.12 to 1.1.16: Windows.

#[test]
fn abstract_name_finds_the_batch_file_on_windows_1_1_12() {
    assert_eq!(meaning("NEXT", &["NEXT.bat"], Windows), is("NEXT.bat"));
}

#[test]
fn explicit_batch_file_is_that_file_on_windows_1_1_13() {
    assert_eq!(meaning("NEXT.bat", &["NEXT.bat"], Windows), is("NEXT.bat"));
    assert_eq!(meaning("NEXT.bat", &["NEXT.bat", "NEXT.md"], Windows), is("NEXT.bat"));
}

#[test]
fn abstract_name_with_a_shell_script_only_cannot_run_on_windows_1_1_14() {
    let expected = wrong_platform("NEXT", Windows, "NEXT.sh");
    assert_eq!(expected.to_string(), "state `NEXT` cannot run on Windows: NEXT.sh is for Unix");
    assert_eq!(meaning("NEXT", &["NEXT.sh"], Windows), Err(expected));
}

#[test]
fn abstract_name_with_prompt_and_batch_file_is_ambiguous_on_windows_1_1_15() {
    let expected = ambiguous("NEXT", &["NEXT.md", "NEXT.bat"]);
    assert_eq!(meaning("NEXT", &["NEXT.md", "NEXT.bat"], Windows), Err(expected));
}

#[test]
fn explicit_shell_script_cannot_run_on_windows_1_1_16() {
    let expected = Err(wrong_platform("NEXT.sh", Windows, "NEXT.sh"));
    assert_eq!(meaning("NEXT.sh", &["NEXT.sh"], Windows), expected);
    assert_eq!(meaning("NEXT.sh", &["NEXT.sh", "NEXT.bat"], Windows), expected);
}

#[test]
fn prompt_and_the_other_platforms_script_are_not_ambiguous() {
    assert_eq!(meaning("NEXT", &["NEXT.md", "NEXT.bat"], Unix), is("NEXT.md"));
    assert_eq!(meaning("NEXT", &["NEXT.md", "NEXT.sh"], Windows), is("NEXT.md"));
}

// 1.2.1 to 1.2.4: what a file is.

#[test]
fn markdown_is_a_prompt_1_2_1() {
    for platform in BOTH {
        assert_eq!(StateKind::of("NEXT.md", platform), Ok(StateKind::Prompt));
    }
}

#[test]
fn shell_script_is_a_script_on_unix_only_1_2_2() {
    assert_eq!(StateKind::of("NEXT.sh", Unix), Ok(StateKind::Script));
    let error = StateKindError::WrongPlatform { name: "NEXT.sh".to_owned(), needs: Unix };
    assert_eq!(error.to_string(), "`NEXT.sh` runs on Unix only");
    assert_eq!(StateKind::of("NEXT.sh", Windows), Err(error));
}

#[test]
fn batch_file_is_a_script_on_windows_only_1_2_3() {
    assert_eq!(StateKind::of("NEXT.bat", Windows), Ok(StateKind::Script));
    let error = StateKindError::WrongPlatform { name: "NEXT.bat".to_owned(), needs: Windows };
    assert_eq!(error.to_string(), "`NEXT.bat` runs on Windows only");
    assert_eq!(StateKind::of("NEXT.bat", Unix), Err(error));
}

#[test]
fn any_other_file_is_not_a_state_1_2_4() {
    for platform in BOTH {
        for name in ["NEXT.py", "NEXT", "NEXT.MD", "NEXT.md~", ".md", ".sh", ".bat", "", "md"] {
            let error = StateKindError::Unsupported { name: name.to_owned() };
            assert_eq!(StateKind::of(name, platform), Err(error));
        }
    }
    let error = StateKind::of("NEXT.py", Unix).unwrap_err();
    assert_eq!(error.to_string(), "`NEXT.py` is not a state: states end in .md, .sh or .bat");
}

// Names that are harder.

#[test]
fn name_with_an_extension_that_is_no_states_is_unsupported_if_the_file_exists() {
    for platform in BOTH {
        let kind = StateKindError::Unsupported { name: "NEXT.py".to_owned() };
        let expected = Err(ResolveError::Unsupported(kind));
        assert_eq!(meaning("NEXT.py", &["NEXT.py"], platform), expected);
    }
    let error = meaning("NEXT.py", &["NEXT.py"], Unix).unwrap_err();
    assert_eq!(error.to_string(), "`NEXT.py` is not a state: states end in .md, .sh or .bat");
}

#[test]
fn dot_in_a_name_is_part_of_an_abstract_name() {
    for platform in BOTH {
        assert_eq!(meaning("v1.2", &["v1.2.md"], platform), is("v1.2.md"));
        assert_eq!(meaning("NEXT.py", &["NEXT.py", "NEXT.py.md"], platform), is("NEXT.py.md"));
    }
}

#[test]
fn file_without_extension_is_not_a_state() {
    let kind = StateKindError::Unsupported { name: "NEXT".to_owned() };
    assert_eq!(meaning("NEXT", &["NEXT"], Unix), Err(ResolveError::Unsupported(kind)));
    // It does not stand in the way of one either.
    assert_eq!(meaning("NEXT", &["NEXT", "NEXT.md"], Unix), is("NEXT.md"));
}

#[test]
fn case_of_a_name_matters_on_both_platforms() {
    let expected = not_found("next", &["next.md", "next.sh"], Some("NEXT.md"));
    assert_eq!(meaning("next", &["NEXT.md"], Unix), expected);
    let expected = not_found("next.md", &["next.md"], Some("NEXT.md"));
    assert_eq!(meaning("next.md", &["NEXT.md"], Windows), expected);
}

#[test]
fn empty_name_means_nothing() {
    for platform in BOTH {
        let found = meaning("", &["NEXT.md", ".md", ".sh", ".bat"], platform);
        assert!(found.is_err(), "{found:?}");
    }
}

// Suggestions.

#[test]
fn misspelt_name_suggests_the_file_that_was_meant() {
    let files = ["IMPLEMENT.md", "REVIEW.md", "DEPLOY.sh"];
    let suggested = |name: &str| match meaning(name, &files, Unix) {
        Err(ResolveError::NotFound { suggestion, .. }) => suggestion,
        other => panic!("{name}: {other:?}"),
    };
    assert_eq!(suggested("REVEIW.md").as_deref(), Some("REVIEW.md"));
    assert_eq!(suggested("REVEIW").as_deref(), Some("REVIEW.md"));
    assert_eq!(suggested("Review").as_deref(), Some("REVIEW.md"));
    assert_eq!(suggested("DEPLOI").as_deref(), Some("DEPLOY.sh"));
    assert_eq!(suggested("DEPLOY.md").as_deref(), Some("DEPLOY.sh"));
    assert_eq!(suggested("SOMETHING_ELSE.md"), None);
    assert_eq!(suggested("SOMETHING_ELSE"), None);
}

// Entry states.

fn started(files: &[&str], platform: Platform) -> Result<StateName, EntryError> {
    entry(&scope(files), platform)
}

#[test]
fn directory_starts_with_start_or_1_start() {
    for platform in BOTH {
        assert_eq!(started(&["START.md", "NEXT.md"], platform), is("START.md"));
        assert_eq!(started(&["1_START.md", "2_NEXT.md"], platform), is("1_START.md"));
    }
}

#[test]
fn directory_may_start_with_a_script() {
    let files = ["START.bat", "START.sh"];
    assert_eq!(started(&files, Unix), is("START.sh"));
    assert_eq!(started(&files, Windows), is("START.bat"));
    assert_eq!(started(&["1_START.sh"], Unix), is("1_START.sh"));
}

#[test]
fn directory_with_both_entry_states_is_refused() {
    for platform in BOTH {
        let expected = EntryError::Both {
            first: StateName::new("1_START.md"),
            second: StateName::new("START.md"),
        };
        assert_eq!(started(&["START.md", "1_START.md"], platform), Err(expected));
    }
    let error = started(&["START.sh", "1_START.md"], Unix).unwrap_err();
    assert_eq!(error.to_string(), "two entry states, 1_START.md and START.sh: keep only one");
}

#[test]
fn entry_state_of_the_other_platform_does_not_count_beside_one_that_runs_here() {
    assert_eq!(started(&["START.sh", "1_START.bat"], Unix), is("START.sh"));
    assert_eq!(started(&["START.sh", "1_START.bat"], Windows), is("1_START.bat"));
    assert_eq!(started(&["START.bat", "1_START.md"], Unix), is("1_START.md"));
}

#[test]
fn directory_with_an_entry_state_of_the_other_platform_only_is_refused() {
    let cause = wrong_platform("START", Unix, "START.bat");
    assert_eq!(started(&["START.bat"], Unix), Err(EntryError::Unusable(cause)));
    let cause = wrong_platform("1_START", Windows, "1_START.sh");
    let error = EntryError::Unusable(cause.clone());
    assert_eq!(error.to_string(), "the entry state cannot be used");
    let source = std::error::Error::source(&error).map(ToString::to_string);
    assert_eq!(source, Some(cause.to_string()));
    assert_eq!(started(&["1_START.sh"], Windows), Err(error));
}

#[test]
fn directory_with_an_ambiguous_entry_state_is_refused() {
    let cause = ambiguous("START", &["START.md", "START.sh"]);
    assert_eq!(started(&["START.md", "START.sh"], Unix), Err(EntryError::Unusable(cause)));
    assert_eq!(started(&["START.md", "START.sh"], Windows), is("START.md"));
    let cause = ambiguous("1_START", &["1_START.md", "1_START.sh"]);
    let files = ["START.md", "1_START.md", "1_START.sh"];
    assert_eq!(started(&files, Unix), Err(EntryError::Unusable(cause)));
}

#[test]
fn directory_without_an_entry_state_is_refused_with_what_was_expected() {
    let error = EntryError::None { extension: ".sh", suggestion: None };
    assert_eq!(
        error.to_string(),
        "no entry state: expected 1_START or START, with the extension .md or .sh"
    );
    assert_eq!(started(&[], Unix), Err(error.clone()));
    assert_eq!(started(&["REVIEW.md", "notes.txt"], Unix), Err(error));
    let error = EntryError::None { extension: ".bat", suggestion: None };
    assert_eq!(started(&["REVIEW.md"], Windows), Err(error));
}

#[test]
fn directory_without_an_entry_state_suggests_the_file_that_was_meant() {
    for file in ["start.md", "STRAT.md", "START.sh.md"] {
        let found = started(&["REVIEW.md", file], Unix);
        let expected = match file {
            "START.sh.md" => None,
            file => Some(file.to_owned()),
        };
        assert_eq!(found, Err(EntryError::None { extension: ".sh", suggestion: expected }));
    }
}

#[test]
fn listing_is_sorted_and_knows_its_names() {
    let listing = scope(&["b.md", "a.md", "b.md"]);
    assert_eq!(listing.names().collect::<Vec<_>>(), ["a.md", "b.md"]);
    assert!(listing.contains("a.md"));
    assert!(!listing.contains("A.md"));
}
