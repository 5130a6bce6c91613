//! Workflows in one YAML file: started, linted, tested, packed and unpacked.

use std::fs;

use crate::env::Project;

const FLOW: &str = "\
states:
  START:
    sh: |
      cat \"$RAYMOND_STATE_DIR/data.txt\"
      echo '<call return=\"END\">sub/</call>'
  END:
    sh: echo \"<result>got $RAYMOND_RESULT</result>\"
  sub/:
    START:
      sh: echo '<result>sub</result>'
files:
  data.txt: beside
  tests/main.yaml: |
    expect:
      result: got sub
      path: [START, sub/START, END]
  sub/tests/alone.yaml: |
    expect: { result: sub }
";

#[test]
fn one_file_runs_and_its_tests_pass() {
    let project = Project::new([]);
    project.write("flow.yaml", FLOW);
    project.raymond(&["start", "flow.yaml", "--id", "r"]).completed("got sub");
    let ran = project.raymond(&["test", "flow.yaml"]);
    assert_eq!(ran.code, 0, "{}{}", ran.stdout, ran.stderr);
    assert!(ran.stdout.contains("ok     main"), "{}", ran.stdout);
    assert!(ran.stdout.contains("ok     sub/alone"), "{}", ran.stdout);
    let drawn = project.raymond(&["diagram", "flow.yaml"]).stdout;
    assert!(drawn.contains("subgraph"), "{drawn}");
}

#[test]
fn one_file_is_continued_after_its_script_was_fixed() {
    let project = Project::new([]);
    project.write("flow.yaml", &FLOW.replace("echo '<result>sub</result>'", "exit 3"));
    assert_eq!(project.raymond(&["start", "flow.yaml", "--id", "r"]).code, 1);
    project.write("flow.yaml", FLOW);
    project.raymond(&["resume", "r"]).completed("got sub");
}

#[test]
fn lint_points_into_the_yaml() {
    let project = Project::new([]);
    let yaml =
        "states:\n  START:\n    model: haiku\n    prompt: |\n      Say\n      <goto>GONE</goto>\n";
    project.write("flow.yaml", yaml);
    let ran = project.raymond(&["lint", "flow.yaml"]);
    let drawn = " --> flow.yaml:6:13\n  |\n6 |       <goto>GONE</goto>\n  |             ^^^^\n";
    assert!(ran.stdout.contains(drawn), "{}", ran.stdout);
    let found = project.raymond(&["lint", "flow.yaml", "--json"]).stdout;
    let found: serde_json::Value = serde_json::from_str(&found).unwrap();
    let missing = found.as_array().unwrap().iter().find(|f| f["rule"] == "missing-target");
    let missing = missing.unwrap();
    assert_eq!((&missing["file"], &missing["line"]), (&"flow.yaml".into(), &6.into()));
}

#[test]
fn run_that_fails_names_the_line_of_the_yaml() {
    let project = Project::new([]);
    let yaml = "states:\n  START:\n    sh: echo '<goto>NEXT</goto>'\n  NEXT:\n    timeout: soon\n    prompt: Say it.\n";
    project.write("flow.yaml", yaml);
    let ran = project.raymond(&["start", "flow.yaml", "--id", "r", "--no-lint"]);
    assert_eq!(ran.code, 1);
    assert!(ran.stderr.contains("flow.yaml:5:14\n"), "{}", ran.stderr);
    let status = project.raymond(&["status", "r"]).stdout;
    assert!(status.contains("flow.yaml:5:14: "), "{status}");
    assert!(!status.contains("NEXT.md:"), "{status}");
}

#[test]
fn mistake_in_the_yaml_is_refused_with_its_place() {
    let project = Project::new([]);
    project.write("flow.yaml", "states:\n  START:\n    promt: x\n");
    let ran = project.raymond(&["start", "flow.yaml"]);
    assert_ne!(ran.code, 0);
    let said = "line 2:3: `START` has neither `prompt` nor `sh` nor `bat` (did you mean `prompt`?)";
    assert!(ran.stderr.contains(said), "{}", ran.stderr);
    assert!(ran.stderr.contains("hint: correct that line"), "{}", ran.stderr);
    project.write("flow.yaml", "states:\n  BEGIN:\n    sh: echo\n");
    let ran = project.raymond(&["start", "flow.yaml"]);
    assert!(ran.stderr.contains("hint: add a state `START` under `states`"), "{}", ran.stderr);
}

#[test]
fn packing_and_unpacking_give_the_same_files_and_bytes() {
    let project = Project::new([("START.md", "---\nmodel: a # b\n---\n{{input}}\n")]);
    fs::create_dir_all(project.file("flow/review/tests")).unwrap();
    project.write("flow/review/START.sh", "echo '<result>x</result>'\r\n");
    project.write("flow/review/tests/a.yaml", "expect: {}\n");
    project.write("flow/data.txt", "  \n\ntext");
    assert_eq!(project.raymond(&["pack", "flow", "--yaml"]).code, 0);
    assert!(
        project.read("flow.yaml").contains("    model: a # b\n"),
        "{}",
        project.read("flow.yaml")
    );
    let ran = project.raymond(&["pack", "--unpack", "flow.yaml", "-o", "copy"]);
    assert_eq!(ran.code, 0, "{}", ran.stderr);
    for name in ["START.md", "review/START.sh", "review/tests/a.yaml", "data.txt"] {
        let read = |folder: &str| fs::read(project.file(&format!("{folder}/{name}"))).unwrap();
        assert_eq!(read("flow"), read("copy"), "{name}");
    }
    project.raymond(&["pack", "copy", "--yaml", "-o", "again.yaml"]);
    assert_eq!(project.read("again.yaml"), project.read("flow.yaml"));
    // Both ways from an archive, too, and never over a directory that is there.
    project.raymond(&["pack", "flow"]);
    assert_eq!(project.raymond(&["pack", "--unpack", "flow.zip", "-o", "third"]).code, 0);
    let ran = project.raymond(&["pack", "--unpack", "flow.zip"]);
    assert_ne!(ran.code, 0);
    assert!(ran.stderr.contains("flow already exists"), "{}", ran.stderr);
    project.raymond(&["pack", "third", "--yaml", "-o", "third.yaml"]);
    assert_eq!(project.read("third.yaml"), project.read("flow.yaml"));
}

/// Not on macOS, whose file systems refuse such names.
#[cfg(target_os = "linux")]
#[test]
fn name_that_is_not_text_is_refused_by_pack_in_every_folder_that_it_packs() {
    use std::{ffi::OsStr, os::unix::ffi::OsStrExt as _};
    let odd = OsStr::from_bytes(b"not-\xff.md");
    for folder in ["flow", "flow/sub", "flow/tests"] {
        let project = Project::new([("START.sh", "echo '<result>x</result>'")]);
        for (inner, name) in [("sub", "START.sh"), ("tests", "a.yaml")] {
            fs::create_dir(project.file("flow").join(inner)).unwrap();
            project.write(&format!("flow/{inner}/{name}"), "");
        }
        let path = project.file(folder).join(odd);
        fs::write(&path, "x").unwrap();
        for words in [&["pack", "flow"][..], &["pack", "flow", "--yaml"]] {
            let ran = project.raymond(words);
            let said = format!("error: the name of {folder}/not-\u{fffd}.md is not valid UTF-8");
            assert!(ran.code == 2 && ran.stderr.contains(&said), "{folder}: {}", ran.stderr);
            assert!(ran.stderr.contains("hint: rename it"), "{}", ran.stderr);
        }
        assert!(!project.file("flow.zip").exists() && !project.file("flow.yaml").exists());
        fs::rename(&path, project.file(folder).join(OsStr::from_bytes(b".\xff"))).unwrap();
        assert_eq!(project.raymond(&["pack", "flow"]).code, 0, "hidden files are left out");
    }
}

#[cfg(unix)]
#[test]
fn what_yaml_cannot_carry_is_refused() {
    use std::os::unix::fs::PermissionsExt as _;
    let project = Project::new([("START.sh", "echo '<result>x</result>'"), ("tool", "x")]);
    let mode = |name: &str, mode: u32| {
        fs::set_permissions(project.file(name), fs::Permissions::from_mode(mode)).unwrap();
    };
    let refused = |said: &str| {
        let ran = project.raymond(&["pack", "flow", "--yaml"]);
        assert!(ran.code != 0 && ran.stderr.contains(said), "{said}: {}", ran.stderr);
        assert!(!project.file("flow.yaml").exists());
    };
    mode("flow/tool", 0o755);
    refused("flow/tool is executable, which YAML cannot carry");
    mode("flow/tool", 0o644);
    fs::write(project.file("flow/data.bin"), [0xff]).unwrap();
    refused("`data.bin` is not UTF-8 text, which YAML cannot carry");
    fs::remove_file(project.file("flow/data.bin")).unwrap();
    mode("flow/START.sh", 0o755);
    assert_eq!(project.raymond(&["pack", "flow", "--yaml"]).code, 0, "bash runs it in any mode");
}

#[test]
fn hint_fits_a_yaml_file() {
    let project = Project::new([]);
    let refused = |yaml: &[u8], hint: &str| {
        std::fs::write(project.file("f.yaml"), yaml).unwrap();
        project.raymond(&["lint", "f.yaml"]).failed(2, hint);
    };
    refused(b"states:\n  START: { sh: \"\xe4\" }\n", "save it as a text file in UTF-8");
    refused(b"states: { START: { sh: x }, start: { sh: x } }", "rename one of them");
    refused(b"states: { START: { sh: x } }\nfiles: { a/b: x }", "give the file another name");
    std::fs::create_dir(project.file("empty")).unwrap();
    project
        .raymond(&["pack", "empty", "--yaml"])
        .failed(2, "name the directory with the state files");
}
