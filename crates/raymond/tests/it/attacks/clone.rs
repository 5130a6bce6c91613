//! A cloned repository that has a `.raymond`: runs, settings and links of somebody else.

use std::{fs, process::Command};

use super::{cloned, command, raymond};
use crate::env::{Project, Ran};

#[test]
fn run_that_came_with_a_clone_is_not_resumed_by_any_command_until_it_is_trusted() {
    let project = cloned();
    for arguments in [
        &["resume", "planted"][..],
        &["resume", "planted", "--detach"],
        &["run", "planted"],
        &["cancel", "planted", "--yes"],
        &["stop", "planted"],
        &["limit", "planted", "--budget", "5000"],
        &["tell", "planted", "hello"],
        &["land", "planted"],
        &["show", "planted", "--diff"],
        &["rewind", "planted", "main.1"],
        &["fork-run", "planted"],
        &["status", "planted"],
        &["log", "planted"],
    ] {
        let ran = raymond(&project, arguments);
        assert_ne!(ran.code, 0, "{arguments:?}: {ran:?}");
        assert!(ran.stderr.contains("raymond trust"), "{arguments:?}: {ran:?}");
    }
    let before = project.read(".raymond/workflows/planted.journal");
    for (command, none) in
        [("recover", "No run has to be recovered"), ("asks", "No question is open")]
    {
        let told = raymond(&project, &[command]).stderr;
        assert!(told.contains(none), "{told}");
        assert!(
            told.contains("1 foreign run came with") && told.contains("raymond trust"),
            "{told}"
        );
    }
    raymond(&project, &["prune", "--older-than", "0s", "--yes"]);
    raymond(&project, &["prune", "--older-than", "0s", "--yes", "--status", "unreadable"]);
    assert!(raymond(&project, &["list"]).stdout.contains("planted  ✗ foreign"));
    assert!(!project.file(".raymond/workflows/planted").exists(), "nothing is made for it");
    assert_eq!(project.read(".raymond/workflows/planted.journal"), before);
    assert!(!project.file("obeyed").exists());
    let shown = raymond(&project, &["trust"]);
    assert_eq!(shown.code, 1, "{shown:?}");
    // Elsewhere, what is printed leads there.
    let elsewhere = tempfile::tempdir().unwrap();
    let here = project.path().to_str().unwrap();
    let data_dir = project.file(".raymond");
    for arguments in
        [&["trust", here][..], &["status", "planted", "--data-dir", data_dir.to_str().unwrap()]]
    {
        let mut there = command(&project, arguments);
        let ran = Ran::of(&there.current_dir(elsewhere.path()).output().unwrap());
        assert!(ran.stderr.contains("raymond trust -") && ran.stderr.contains(here), "{ran:?}");
    }
    let would = format!(
        "run      planted  running, of {0}/flow in {0}\n         coding agent claude\n         budget $10.00, \
         iterations none, parallel 16, retries 3, retry for 10m00s; $0.00 spent\n         main goes on in START.sh, in {0}\n",
        project.path().display()
    );
    assert_eq!(shown.stdout, would);
    assert_eq!(raymond(&project, &["trust", "--yes"]).code, 0);
    raymond(&project, &["resume", "planted"]).completed("x");
}

#[test]
fn run_that_is_to_be_taken_over_is_shown_with_its_power() {
    let theirs = Project::new([
        ("START.sh", "echo '<fork next=\"ASK\" worktree=\"true\" PART=\"7\">WORK</fork>'"),
        ("ASK.sh", "echo '<ask choices=\"yes=DEPLOY|no=STOP\">Deploy?\nNow?</ask>'"),
        ("WORK.sh", "exit 3"),
        ("DEPLOY.sh", "touch obeyed"),
        ("STOP.sh", "exit 0"),
    ]);
    for arguments in [&["init", "--quiet"][..], &["add", "flow"], &["commit", "--quiet", "-m", "c"]]
    {
        let mut git = Command::new("git");
        git.args(["-c", "user.name=t", "-c", "user.email=t@localhost"]).args(arguments);
        assert!(git.current_dir(theirs.path()).status().unwrap().success());
    }
    let options = ["--dangerously-skip-permissions", "--budget", "5000", "--agent", "codex"];
    let start = ["flow", "--id", "planted", "--no-wait"];
    let ran = theirs.raymond(&[&start[..], &options].concat());
    assert_ne!(ran.code, 0, "{ran:?}");
    let other = Project::new([]);
    let mut shown = command(&theirs, &["trust"]);
    shown.env("XDG_STATE_HOME", other.path());
    let shown = Ran::of(&shown.output().unwrap()).stdout;
    for part in [
        "  coding agents may use every tool without asking\n",
        "  coding agent codex\n",
        "  budget $5000.00, ",
        "  main goes on in ASK.sh, in ",
        "; asks: Deploy?\\nNow?\n",
        "  main_work1 goes on in WORK.sh, in ",
        "; variable PART=7\n",
        "  worktree of main_work1: ",
    ] {
        assert!(shown.contains(part), "{part}: {shown}");
    }
}

#[test]
fn settings_of_a_clone_that_give_power_do_not_count_until_they_are_trusted() {
    let project = Project::new([("START.md", "do it\n<result>fine</result>")]);
    let program = format!("{}", project.file("evil.sh").display());
    project.write(
        "evil.sh",
        "#!/bin/sh\ntouch obeyed\ncat >/dev/null\necho '{\"result\":\"<result>x</result>\"}'",
    );
    for settings in [
        "[agents.claude]\narguments = ['--add-dir', '/']\n".to_owned(),
        format!("[agents.claude]\nprogram = '{program}'\n"),
        format!("agent = 'own'\n[agents.own]\nprogram = '{program}'\n"),
        format!("[agents.claude]\nadd_dirs = ['/']\nmcp = {{ x = {{ command = '{program}' }} }}\n"),
        format!("[notify]\ncommand = ['sh', '{program}']\non = ['ask', 'completed']\n"),
        "dangerously_skip_permissions = true\n".to_owned(),
        "budget = 5000\n".to_owned(),
        "budget = 0\n".to_owned(),
        "ask = 'default'\n".to_owned(),
        "agent = 'pi'\n".to_owned(),
        "[failover]\norder = ['claude', 'pi']\n".to_owned(),
    ] {
        project.write(".raymond/config.toml", &settings);
        for arguments in [&["flow"][..], &["flow", "--detach"], &["recover"]] {
            let ran = raymond(&project, arguments);
            assert_eq!(ran.code, 2, "{settings}: {ran:?}");
            assert!(ran.stderr.contains("raymond trust"), "{settings}: {ran:?}");
        }
        for arguments in [
            &["doctor", "--quick"][..],
            &["lint", "flow"],
            &["list"],
            &["config"],
            &["test", "flow"],
        ] {
            raymond(&project, arguments);
        }
        assert!(!project.file("obeyed").exists(), "{settings}");
        assert!(raymond(&project, &["config"]).stdout.contains("not trusted"), "{settings}");
    }
}

#[test]
fn settings_of_a_clone_that_start_something_are_named_first() {
    let project = Project::new([("START.sh", "exit 0")]);
    project.write(
        ".raymond/config.toml",
        "budget = 50\nask = 'default'\n[agents.claude]\nprogram = 'x'\n[notify]\ncommand = ['y']\n",
    );
    let shown = raymond(&project, &["trust"]).stdout;
    let names: Vec<_> = shown.lines().filter_map(|line| line.split(' ').nth(2)).collect();
    assert_eq!(names[2..].len(), 2, "{shown}");
    assert!(names[..2].contains(&"agents.claude.program"), "{shown}");
    assert!(names[..2].contains(&"notify.command"), "{shown}");
}

#[test]
fn harmless_settings_of_a_clone_count_at_once_and_a_trusted_file_until_it_changes() {
    let project = Project::new([("START.sh", "echo '<result>fine</result>'")]);
    let harmless = "model = 'opus'\nbudget = 3\nretries = 1\nmax_parallel = 2\n";
    project.write(".raymond/config.toml", harmless);
    raymond(&project, &["flow"]).completed("fine");
    let ran = raymond(&project, &["flow", "--json"]);
    assert!(ran.stdout.contains("\"budget_usd\":3.0"), "{ran:?}");
    project.write(".raymond/config.toml", "budget = 50\n");
    raymond(&project, &["flow"]).failed(2, "1 setting that you have not trusted: budget");
    let trusted = raymond(&project, &["trust", "--yes"]);
    assert!(trusted.stdout.contains("budget = 50"), "{trusted:?}");
    raymond(&project, &["flow"]).completed("fine");
    project.write(".raymond/config.toml", "agent = 'pi'\nbudget = 51\n");
    raymond(&project, &["flow"]).failed(2, "raymond trust");
    let changed = raymond(&project, &["trust"]).stdout;
    assert!(changed.contains("line 2, was 50)") && changed.contains("line 1, new)"), "{changed}");
    let mut in_ci = command(&project, &["flow"]);
    in_ci.env("RAYMOND_TRUST", project.path());
    Ran::of(&in_ci.output().unwrap()).completed("fine");
}

#[test]
fn limit_that_the_user_has_set_is_not_loosened_by_a_clone() {
    let project = Project::new([("START.sh", "echo '<result>fine</result>'")]);
    fs::create_dir_all(project.file(".config/raymond")).unwrap();
    let own = "max_iterations = 100\nmax_parallel = 4\nusage_max = 80\nagent = 'codex'\n\
               retries = 2\nretry_for = '5m'\ntimeout = '20m'\nwarm = 1\ndisk_reserve = 2000\n";
    project.write(".config/raymond/config.toml", own);
    for (looser, tighter) in [
        ("max_iterations = 0", "max_iterations = 99"),
        ("max_parallel = 5", "max_parallel = 3"),
        ("usage_max = 0", "usage_max = 79"),
        ("usage_max = 81", "usage_max = 80"),
        ("agent = 'claude'", "agent = 'codex'"),
        ("retries = 4294967295", "retries = 0"),
        ("retry_for = '6m'", "retry_for = 0"),
        ("warm = 2", "warm = 0"),
        ("disk_reserve = 1999", "disk_reserve = 2001"),
        ("timeout = 0", "timeout = '19m'"),
        ("timeout = '21m'", "timeout = 1200"),
    ] {
        project.write(".raymond/config.toml", looser);
        raymond(&project, &["flow"]).failed(2, "1 setting that you have not trusted");
        project.write(".raymond/config.toml", tighter);
        let ran = raymond(&project, &["flow", "--budget", "0"]);
        ran.completed("fine");
    }
}

#[test]
fn nothing_is_read_written_or_made_through_a_link_that_came_with_a_clone() {
    let elsewhere = tempfile::tempdir().unwrap();
    let there = elsewhere.path();
    let mode = |path: &std::path::Path| {
        std::os::unix::fs::PermissionsExt::mode(&fs::metadata(path).unwrap().permissions())
    };
    let loose: fs::Permissions = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    fs::set_permissions(there, loose).unwrap();
    fs::write(there.join("theirs"), "theirs").unwrap();
    let before = (mode(there), mode(&there.join("theirs")));
    for (link, is_folder) in [
        (".raymond", true),
        (".raymond/config.toml", false),
        (".raymond/workflows", true),
        (".raymond/workflows/r", true),
        (".raymond/workflows/r/steps", true),
        (".raymond/workflows/r/steps/main.1", true),
        (".raymond/workflows/r/scope", true),
        (".raymond/workflows/r/asks", true),
        (".raymond/workflows/r/door", true),
        (".raymond/workflows/r.journal", false),
        (".raymond/workflows/r.lock", false),
        (".raymond/worktrees", true),
        (".raymond/debug", true),
    ] {
        let project = Project::new([("START.sh", "echo '<result>fine</result>'")]);
        let path = project.file(link);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        let _ = fs::remove_dir_all(&path);
        let _ = fs::remove_file(&path);
        let target = if is_folder { there.to_owned() } else { there.join("theirs") };
        std::os::unix::fs::symlink(target, &path).unwrap();
        for arguments in [
            &["flow", "--id", "r", "--debug"][..],
            &["resume", "r"],
            &["cancel", "r", "--yes"],
            &["recover"],
            &["list"],
            &["status", "r"],
            &["show", "r"],
            &["trust", "--yes"],
            &["prune", "--older-than", "0s", "--yes"],
            &["doctor", "--quick"],
        ] {
            raymond(&project, arguments);
        }
        let left: Vec<_> = fs::read_dir(there).unwrap().map(|it| it.unwrap().file_name()).collect();
        assert_eq!(left, ["theirs"], "{link}");
        assert_eq!(fs::read_to_string(there.join("theirs")).unwrap(), "theirs", "{link}");
        assert_eq!((mode(there), mode(&there.join("theirs"))), before, "{link}");
    }
}

#[test]
fn runs_of_another_project_are_not_read_through_a_link() {
    let other = Project::new([("START.sh", "echo '<result>secret</result>'")]);
    raymond(&other, &["flow", "--id", "r"]).completed("secret");
    for link in ["workflows", "workflows/r", "workflows/r/steps", "workflows/r.journal"] {
        let project = Project::new([]);
        let there = other.file(".raymond/workflows");
        if link != "workflows" {
            fs::create_dir(project.file(".raymond/workflows")).unwrap();
            let journal = project.file(".raymond/workflows/r.journal");
            fs::copy(there.join("r.journal"), journal).unwrap();
        }
        let path = project.file(&format!(".raymond/{link}"));
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        let _ = fs::remove_file(&path);
        std::os::unix::fs::symlink(other.file(&format!(".raymond/{link}")), &path).unwrap();
        for verb in ["status", "show", "log", "cost", "list", "asks"] {
            let arguments = [verb, "r"];
            let arguments = if verb == "list" { &arguments[..1] } else { &arguments };
            let mut command = command(&project, arguments);
            // The key of the same user.
            command.env("XDG_STATE_HOME", other.file(".state"));
            let ran = Ran::of(&command.output().unwrap());
            let is_named = ran.stderr.contains("is a link") || ran.stdout.contains("is a link");
            let is_of_run = link != "workflows" && matches!(verb, "list" | "asks");
            assert!(is_of_run || is_named, "{link} {verb}: {ran:?}");
            assert!(is_of_run || ran.code != 0, "{link} {verb}: {ran:?}");
            assert!(!ran.stdout.contains("secret"), "{link} {verb}: {ran:?}");
        }
    }
}

#[test]
fn copy_of_a_state_directory_does_no_work_of_the_original() {
    let project =
        Project::new([("START.sh", "echo x >> log; [ -e go ] && echo '<result>x</result>'")]);
    assert_eq!(raymond(&project, &["flow", "--id", "r"]).code, 1);
    let other = Project::new([]);
    fs::remove_dir_all(other.file(".raymond")).unwrap();
    let mut copy = Command::new("cp");
    copy.arg("-r").arg(project.file(".raymond")).arg(other.path());
    assert!(copy.status().unwrap().success());
    let in_copy = |arguments: &[&str]| {
        let mut command = command(&project, arguments);
        Ran::of(&command.current_dir(other.path()).output().unwrap())
    };
    for arguments in [
        &["resume", "r"][..],
        &["cancel", "r", "--yes"],
        &["limit", "r", "--budget", "5000"],
        &["answer", "r", "yes"],
        &["tell", "r", "hello"],
    ] {
        let ran = in_copy(arguments);
        assert!(ran.code != 0 && ran.stderr.contains("is a copy of run `r` in"), "{ran:?}");
    }
    // Under another name in its own directory.
    let journal = project.file(".raymond/workflows/r.journal");
    fs::copy(&journal, project.file(".raymond/workflows/s.journal")).unwrap();
    let ran = raymond(&project, &["resume", "s"]);
    assert!(ran.stderr.contains("go on with that one: raymond resume r --data-dir "), "{ran:?}");
    assert_eq!(project.lines("log").len(), 1);
    // One that was moved is none.
    fs::remove_dir_all(project.file(".raymond")).unwrap();
    project.write("go", "");
    in_copy(&["resume", "r"]).completed("x");
}

#[test]
fn copy_of_a_data_directory_that_the_user_has_named_does_no_work_of_the_original() {
    let project =
        Project::new([("START.sh", "echo x >> log; [ -e go ] && echo '<result>x</result>'")]);
    assert_eq!(raymond(&project, &["flow", "--id", "r", "--data-dir", "dd"]).code, 1);
    let mut copy = Command::new("cp");
    copy.args(["-r", "dd", "dd2"]).current_dir(project.path());
    assert!(copy.status().unwrap().success());
    let ran = raymond(&project, &["resume", "r", "--data-dir", "dd2"]);
    assert!(ran.code != 0 && ran.stderr.contains("is a copy of run `r` in"), "{ran:?}");
    assert!(ran.stderr.contains("raymond fork-run r --data-dir "), "{ran:?}");
    assert_eq!(project.lines("log").len(), 1);
    // The original is none, also while the copy is there, and neither is what was moved.
    assert_eq!(raymond(&project, &["resume", "r", "--data-dir", "dd"]).code, 1);
    assert_eq!(project.lines("log").len(), 2);
    fs::remove_dir_all(project.file("dd")).unwrap();
    project.write("go", "");
    raymond(&project, &["resume", "r", "--data-dir", "dd2"]).completed("x");
}

#[test]
fn what_the_user_has_said_of_a_coding_agent_holds_with_the_model_of_a_clone() {
    let project = Project::new([("START.md", "do it\n<result>fine</result>")]);
    fs::create_dir_all(project.file(".config/raymond")).unwrap();
    let own = "[agents.codex]\nmodel = 'mine'\narguments = ['--sandbox', 'read-only']\n";
    project.write(".config/raymond/config.toml", own);
    for (settings, model) in
        [("[agents.codex]\nmodel = 'theirs'\n", "theirs"), ("[agents.codex]\n", "mine")]
    {
        project.write(".raymond/config.toml", settings);
        let shown = raymond(&project, &["config"]).stdout;
        let line = |key: &str| shown.lines().find(|line| line.contains(key)).unwrap_or_default();
        assert!(line("agents.codex.arguments").contains("read-only"), "{shown}");
        assert!(line("agents.codex.model").contains(model), "{shown}");
    }
    project.write(".raymond/config.toml", "[agents.claude]\nmodel = '--dangerously-skip'\n");
    raymond(&project, &["flow"]).failed(2, "`agents.claude.model`: must not begin with a dash");
}

#[test]
fn run_of_a_clone_whose_name_looks_like_an_option_is_none() {
    let project = cloned();
    let journal = project.file(".raymond/workflows/planted.journal");
    fs::rename(journal, project.file(".raymond/workflows/--yes.journal")).unwrap();
    for arguments in [&["list"][..], &["trust", "--yes"], &["recover"], &["prune", "--yes"]] {
        let ran = raymond(&project, arguments);
        assert!(!ran.stdout.contains("--yes") && !ran.stderr.contains(" --yes"), "{ran:?}");
    }
    assert!(!project.file("obeyed").exists());
}

#[cfg(feature = "serve")]
#[test]
fn server_shows_a_run_of_a_clone_as_foreign_and_no_button_acts_on_it() {
    use serde_json::json;

    use crate::serve::Server;

    let project = cloned();
    project.write(".raymond/config.toml", "[serve]\nmax_budget = 0\n");
    let before = project.read(".raymond/workflows/planted.journal");
    let arguments = ["serve", "--port", "0", "--project", ".", "--recover"];
    let server = Server::of(&project, command(&project, &arguments));
    let row = server.get("/api/runs").ok()["runs"][0].clone();
    assert_eq!((&row["run"], &row["status"]), (&json!("planted"), &json!("foreign")));
    let path = server.run("planted");
    for (verb, body) in [
        ("resume", json!({})),
        ("stop", json!({ "now": true })),
        ("cancel", json!({})),
        ("limits", json!({ "budget_usd": 40 })),
        ("tell", json!({ "agent": "main", "text": "x" })),
    ] {
        let answer = server.post(&format!("{path}/{verb}"), &body);
        assert!(answer.status >= 400 && answer.body.contains("raymond trust"), "{answer:?}");
    }
    let workflow = server.get("/api/workflows").ok()["workflows"][0]["workflow"].clone();
    let start = format!("/api/workflows/{}/runs", workflow.as_str().unwrap());
    let dear = server.post(&start, &json!({ "budget_usd": 5000 }));
    assert!(dear.body.contains("at most $50"), "{dear:?}");
    let cheap = server.post(&start, &json!({ "budget_usd": 5 }));
    assert!(cheap.body.contains("have not trusted"), "{cheap:?}");
    assert_eq!(project.read(".raymond/workflows/planted.journal"), before);
    assert!(!project.file("obeyed").exists());
}
