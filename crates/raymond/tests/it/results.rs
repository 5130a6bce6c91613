//! Long results: they travel whole, but are in memory and journal only by reference.

use std::fs;

use serde_json::Value;

use crate::env::{Project, Ran, WithAgent as _};

/// A result of some 100 KB with quotation marks, line ends and control characters, as a shell prints it.
const PRINT: &str = r#"for i in $(seq 5000); do printf 'line "%s" of %s\001\n' $i "$part"; done"#;

fn long(part: &str) -> String {
    let lines = (1..=5000).map(|line| format!("line \"{line}\" of {part}\u{1}\n"));
    lines.collect::<Vec<_>>().concat()
}

/// Three workers with long results, which are joined and handed on whole.
fn project() -> Project {
    let work = format!("echo '<result>'; {PRINT}; echo '</result>'");
    let fork =
        "for n in a b; do echo \"<fork next=\\\"WAIT\\\" part=\\\"$n\\\">WORK</fork>\"; done";
    let merge = "cp \"$RAYMOND_RESULT_FILE\" got; [ ! -e fails ] || exit 3; \
                 part=all; echo '<result>'; for i in $(seq 5000); do printf 'line \"%s\" of %s\\001\\n' $i all; done; echo '</result>'";
    Project::new([
        ("START.sh", fork),
        ("WAIT.sh", "echo '<join>MERGE</join>'"),
        ("WORK.sh", &*work),
        ("MERGE.sh", merge),
    ])
}

fn results(project: &Project, run: &str) -> Vec<fs::DirEntry> {
    let folder = project.file(&format!(".raymond/workflows/{run}/results"));
    fs::read_dir(folder).unwrap().map(Result::unwrap).collect()
}

#[test]
fn long_results_are_joined_whole_and_the_journal_stays_small() {
    let project = project();
    let ran = project.raymond(&["start", "flow", "--id", "r"]);
    assert_eq!((ran.code, ran.stdout.trim()), (0, long("all").trim()), "{}", ran.stderr);
    let handed: Value = serde_json::from_str(&project.read("got")).unwrap();
    for (index, part) in ["a", "b"].into_iter().enumerate() {
        assert_eq!(handed[index]["attributes"]["part"], part);
        assert_eq!(handed[index]["result"].as_str().unwrap().trim(), long(part).trim());
    }
    let journal = project.read(".raymond/workflows/r.journal");
    assert!(journal.len() < 30_000, "{} bytes", journal.len());
    assert!(project.read(".raymond/workflows/r.json").len() < 10_000);
    assert_eq!(results(&project, "r").len(), 3);
    // Whoever asks for it gets all of it, also later.
    let again = project.raymond(&["resume", "r"]);
    assert_eq!(again.stdout, ran.stdout);
    for command in
        [&["status", "r", "--json"][..], &["log", "r", "--json"], &["run", "r", "--json"]]
    {
        let printed = project.raymond(command).stdout;
        let values = serde_json::Deserializer::from_str(&printed).into_iter::<Value>();
        let mut values = values.map(Result::unwrap);
        let is_whole = |value: Value| {
            value["result"].as_str().is_some_and(|text| text.trim() == long("all").trim())
        };
        assert!(values.any(is_whole), "{command:?}");
    }
    let told = project.raymond(&["log", "r"]).stdout;
    assert!(told.contains("line \"1\" of all") && told.len() < 5_000, "{told}");
}

#[test]
fn run_made_from_the_past_has_its_long_results_too() {
    let project = project();
    project.write("fails", "");
    project.raymond(&["start", "flow", "--id", "r"]).failed(1, "exited with code 3");
    let ran = project.raymond(&["fork-run", "r", "--as", "copy"]);
    assert_eq!(ran.code, 0, "{ran:?}");
    assert_eq!(results(&project, "copy").len(), 2);
    fs::remove_dir_all(project.file(".raymond/workflows/r")).unwrap();
    fs::remove_file(project.file("fails")).unwrap();
    fs::remove_file(project.file("got")).unwrap();
    let ran = project.raymond(&["resume", "copy"]);
    assert_eq!((ran.code, ran.stdout.trim()), (0, long("all").trim()), "{}", ran.stderr);
    assert!(project.read("got").contains("line \\\"5000\\\" of b"));
}

#[test]
fn result_that_is_missing_or_changed_fails_the_step_that_needs_it_and_no_other() {
    let project = project();
    project.write("fails", "");
    project.raymond(&["start", "flow", "--id", "r"]).failed(1, "exited with code 3");
    fs::remove_file(project.file("fails")).unwrap();
    let path = results(&project, "r")[0].path();
    let (text, place) = (fs::read_to_string(&path).unwrap(), path.display().to_string());
    fs::write(&path, text.replacen("line", "Line", 1)).unwrap();
    let damaged = |ran: Ran, why: &str| {
        assert!(ran.stderr.contains(&place), "{}", ran.stderr);
        ran.failed(1, why);
    };
    damaged(project.raymond(&["resume", "r"]), "is damaged");
    fs::remove_file(&path).unwrap();
    damaged(project.raymond(&["resume", "r"]), "cannot be read");
    fs::write(&path, text).unwrap();
    let ran = project.raymond(&["resume", "r"]);
    assert_eq!((ran.code, ran.stdout.trim()), (0, long("all").trim()), "{}", ran.stderr);
    // Without the last one the run is what it was; only its text is gone.
    for entry in results(&project, "r") {
        fs::remove_file(entry.path()).unwrap();
    }
    project.raymond(&["resume", "r"]).failed(1, "cannot be read");
    assert!(project.raymond(&["status", "r"]).stdout.contains("completed"));
}

#[test]
fn prompt_gets_a_long_result_and_says_when_it_is_too_long() {
    let reply = "---\n---\nRead this: {{result}}";
    let work = format!("echo '<result>'; part=x; {PRINT}; echo '</result>'");
    let project = Project::new([
        ("START.sh", "echo '<call return=\"NEXT\">WORK</call>'"),
        ("WORK.sh", &*work),
        ("NEXT.md", reply),
    ]);
    project.write("agent.sh", "cat > prompt; echo '{\"result\": \"<result>fine</result>\"}'");
    let mut command = project.command(&["start", "flow", "--id", "r"]);
    let ran = command.agent("bash agent.sh").output().unwrap();
    Ran::of(&ran).completed("fine");
    assert!(project.read("prompt").contains(long("x").trim()));
}
