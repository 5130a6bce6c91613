//! Names and places as Windows writes them.

use std::fs;

use crate::{env::Project, scripts::printing};

/// A project with the same workflow in a folder of this name.
fn project_with(folder: &str) -> Project {
    let project = Project::new([]);
    fs::create_dir_all(project.file(folder)).unwrap();
    project.write(&format!("{folder}/START.bat"), &printing("<goto>LAST</goto>"));
    project.write(&format!("{folder}/LAST.bat"), &printing("<result>%~n0</result>"));
    project
}

#[test]
fn workflow_is_found_by_every_form_of_its_path() {
    let project = project_with("two words/flow");
    let absolute = project.file("two words\\flow").to_str().unwrap().to_owned();
    assert_eq!(absolute.get(1..3), Some(":\\"), "{absolute} has a drive letter");
    for path in [
        "two words/flow",
        "two words\\flow",
        ".\\two words\\flow\\",
        "two words\\flow\\START.bat",
        &absolute,
        &absolute.replace('\\', "/"),
        &format!("\\\\?\\{absolute}"),
    ] {
        project.raymond(&["start", path]).completed("LAST");
    }
}

#[test]
fn directory_with_shell_characters_can_be_run() {
    for name in ["a & b", "50% (new)", "it's", "grün", "a^b!c!"] {
        let project = project_with(name);
        project.raymond(&["start", name]).completed("LAST");
    }
}

#[test]
fn derived_and_given_ids_are_names_of_files() {
    let project = project_with("My Flow & more");
    project.raymond(&["start", "My Flow & more"]).completed("LAST");
    let listed = project.raymond(&["list"]).stdout;
    let id =
        listed.split_ascii_whitespace().find(|word| word.starts_with("My")).unwrap().to_owned();
    assert_eq!(project.raymond(&["status", &id]).code, 0, "{listed}");
    for id in ["con", "nul", "a:b", "a\\b", "ends."] {
        let ran = project.raymond(&["start", "My Flow & more", "--id", id]);
        assert_eq!(ran.code, 2, "{id}: {ran:?}");
    }
}

#[test]
fn agents_change_to_directories_with_drive_letters_backslashes_and_spaces() {
    let project = Project::new([]);
    fs::create_dir_all(project.file("some tree/deep")).unwrap();
    let absolute = project.file("some tree\\deep");
    let fork = format!("<fork next=\"HERE\" cd=\"{}\">WORKER</fork>", absolute.display());
    project.write("flow/START.bat", &printing(&fork));
    let made = |file: &str, tag: &str| format!("{}type nul > {file}\r\n", printing(tag));
    project.write("flow/WORKER.bat", &made("worker", "<result>w</result>"));
    project.write("flow/HERE.bat", &made("here", "<reset cd=\"some tree\\deep\">THERE</reset>"));
    project.write("flow/THERE.bat", &made("there", "<result>x</result>"));
    project.raymond(&["flow"]).completed("x");
    for file in ["some tree/deep/worker", "here", "some tree/deep/there"] {
        assert!(project.file(file).exists(), "{file}");
    }
}

#[test]
fn archive_is_packed_and_started() {
    let project = project_with("flow");
    project.write("flow/LAST.bat", "@echo off\r\ntype \"%RAYMOND_STATE_DIR%\\words.txt\"\r\n");
    project.write("flow/words.txt", "<result>from the archive</result>");
    let packed = project.raymond(&["pack", "flow"]);
    assert_eq!((packed.code, packed.stdout.trim_end()), (0, "flow.zip"), "{packed:?}");
    project.raymond(&["flow.zip"]).completed("from the archive");
}

#[test]
fn state_directory_can_be_elsewhere() {
    let project = project_with("flow");
    let place = project.file("other place");
    let place = place.to_str().unwrap();
    project.raymond(&["start", "flow", "--id", "r", "--data-dir", place]).completed("LAST");
    assert!(project.file("other place/workflows/r.journal").exists());
    project.raymond(&["run", "r", "--data-dir", place]).completed("LAST");
}
