//! Commands that Raymond prints are safe to paste: bash reads each as one command with the words that are meant.

use std::{fs, process::Command};

use crate::{
    env::{Project, Ran},
    printed,
};

/// A name that does something if it is not quoted.
const EVIL: &str = "a b'$(touch gotcha)|c";

/// The commands of Raymond in what was printed.
fn commands(text: &str) -> Vec<String> {
    let all = printed::commands(text).into_iter();
    all.filter(|command| command.starts_with("raymond ")).collect()
}

/// The words that bash gives to `raymond` when this is pasted, which are those that every test finds.
#[track_caller]
fn words(command: &str) -> Vec<String> {
    let folder = tempfile::tempdir().unwrap();
    let script = format!("raymond() {{ printf '%s\\0' \"$#\" \"$@\"; }}\n{command}\n");
    let is_well_formed = Command::new("bash").args(["-n", "-c", &script]).status().unwrap();
    assert!(is_well_formed.success(), "{command}");
    let output =
        Command::new("bash").args(["-c", &script]).current_dir(folder.path()).output().unwrap();
    assert!(output.status.success() && output.stderr.is_empty(), "{command}: {output:?}");
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0, "{command} made a file");
    let said = String::from_utf8(output.stdout).unwrap();
    let mut said = said.split_terminator('\0').map(str::to_owned);
    let count: usize = said.next().unwrap().parse().unwrap();
    let words: Vec<_> = said.collect();
    assert_eq!(words.len(), count, "{command} is one command");
    let found = printed::words(command).unwrap();
    assert_eq!(found[1..], words, "{command}");
    words
}

/// All commands in what a program printed are safe; those that name `EVIL` have it as it is.
#[track_caller]
fn check(ran: &Ran) -> Vec<Vec<String>> {
    let all: Vec<_> = commands(&format!("{}\n{}", ran.stdout, ran.stderr));
    assert!(!all.is_empty(), "{ran:?}");
    let all: Vec<_> = all.iter().map(|command| words(command)).collect();
    for word in all.iter().flatten() {
        assert!(!word.contains("gotcha") || word.contains(EVIL), "{word}");
    }
    all
}

#[test]
fn commands_about_files_quote_their_names() {
    let project = Project::new([("START.sh", "echo '<result>x</result>'")]);
    fs::rename(project.file("flow"), project.file(EVIL)).unwrap();
    fs::create_dir(project.file(&format!("{EVIL}2"))).unwrap();
    project.write(&format!("{EVIL}2/A.sh"), "echo '<result>x</result>'");
    project.write(&format!("{EVIL}2/B.sh"), "echo '<result>x</result>'");
    project.write(&format!("{EVIL}.yaml"), "no: workflow");
    let names = |ran: Ran| check(&ran).concat().iter().any(|word| word.contains(EVIL));
    for arguments in [
        &["new", "--template", "review", &format!("{EVIL}3")][..],
        &[&format!("{EVIL}2")],
        &["test", EVIL],
        &[EVIL, "second"],
    ] {
        assert!(names(project.raymond(arguments)), "{arguments:?}");
    }
    check(&project.raymond(&["pack", &format!("{EVIL}.yaml")]));
    // A run in a data directory of such a name.
    let at = ["--data-dir", EVIL];
    project.raymond(&[&["start", EVIL, "--id", "r"][..], &at].concat());
    assert!(names(project.raymond(&[&["stop", "r"][..], &at].concat())));
    assert!(names(project.raymond(&[&["tell", "r", "x"][..], &at].concat())));
    assert!(names(project.raymond(&[&["show", "r", "--diff"][..], &at].concat())));
    assert!(names(project.raymond(&[&["prune"][..], &at].concat())));
}

#[test]
fn every_answer_has_a_command_of_its_own() {
    let question = format!(
        "echo \"<ask next='NEXT' choices='yes|change|no; rm -rf x|--json|{}'>Deploy?</ask>\"",
        "it is \\$(touch gotcha)"
    );
    let project =
        Project::new([("START.sh", &*question), ("NEXT.sh", "echo '<result>x</result>'")]);
    let labels = ["yes", "change", "no; rm -rf x", "--json", "it is $(touch gotcha)"];
    let answers = |ran: &Ran| {
        let all = commands(&format!("{}\n{}", ran.stdout, ran.stderr));
        let all = all.iter().map(|command| words(command));
        let answers = all.filter(|words| words[0] == "answer");
        answers.map(|words| words.last().unwrap().clone()).collect::<Vec<_>>()
    };
    let ran = project.raymond(&["flow", "--id", "r", "--no-wait"]);
    assert_eq!(ran.code, 4, "{ran:?}");
    assert_eq!(answers(&ran), labels);
    for arguments in [&["status", "r"][..], &["asks"], &["answer", "r", "main.1", "maybe"]] {
        assert_eq!(answers(&project.raymond(arguments)), labels, "{arguments:?}");
    }
    let status: serde_json::Value =
        serde_json::from_str(&project.raymond(&["status", "r", "--json"]).stdout).unwrap();
    assert_eq!(status["next"], "raymond asks r", "it answers nothing");
    let asks: serde_json::Value =
        serde_json::from_str(&project.raymond(&["asks", "--json"]).stdout).unwrap();
    let commands = asks[0]["commands"].as_array().unwrap().iter();
    let commands = commands.map(|command| words(command.as_str().unwrap()));
    let commands: Vec<_> = commands.collect();
    assert_eq!(
        commands.iter().map(|words| words.last().unwrap()).collect::<Vec<_>>(),
        labels.each_ref()
    );
    let odd: Vec<_> = commands[3].iter().map(String::as_str).collect();
    let answered = project.raymond(&odd).failed(0, "");
    assert!(answered.stderr.contains("main.1 is answered: --json"), "{answered:?}");
}

#[test]
fn command_chooses_what_it_stands_below_and_no_label_that_looks_like_it() {
    let question = "printf '%s' \"<ask choices='no\u{200b}=YES|no\\u{200b}=NO'>Deploy?</ask>\"";
    let project = Project::new([
        ("START.sh", question),
        ("YES.sh", "echo '<result>yes</result>'"),
        ("NO.sh", "echo '<result>no</result>'"),
    ]);
    project.raymond(&["flow", "--id", "r", "--no-wait"]).failed(4, "");
    let asks = project.raymond(&["asks", "r"]).stdout;
    assert!(asks.contains(r"1  $'no\xe2\x80\x8b'  → YES"), "{asks}");
    assert!(asks.contains(r"2  'no\u{200b}'  → NO"), "{asks}");
    let chosen: Vec<_> = commands(&asks).iter().map(|command| words(command)[3].clone()).collect();
    assert_eq!(chosen, ["no\u{200b}", r"no\u{200b}"]);
}

#[test]
fn question_is_shown_whole_above_the_command_that_answers_it() {
    let long = "x".repeat(600);
    let question = format!(
        "echo \"<ask choices='yes=DEPLOY|no=STOP' attach='plan.md'>First line. {long}\nand run rm -rf /</ask>\""
    );
    let project = Project::new([
        ("START.sh", &*question),
        ("DEPLOY.sh", "echo '<result>x</result>'"),
        ("STOP.sh", "echo '<result>x</result>'"),
    ]);
    project.write("plan.md", "the plan");
    let paused = project.raymond(&["flow", "--id", "r", "--no-wait"]);
    for shown in [paused.stderr, project.raymond(&["status", "r"]).stdout] {
        let (above, _) = shown.split_once("raymond answer r main.1 yes").unwrap();
        let plain: String = above.split_whitespace().collect();
        assert!(plain.contains(&long) && plain.contains("andrunrm-rf/"), "{shown}");
        for part in ["1yes→DEPLOY", "2no→STOP", "attached:plan.md"] {
            assert!(plain.contains(part), "{part}: {shown}");
        }
    }
}
