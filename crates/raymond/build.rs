//! Determines which build this is, for `raymond --version`: commit, its date and the target.

use std::{env, process::Command};

fn main() {
    let version = env!("CARGO_PKG_VERSION");
    let target = env::var("TARGET").unwrap_or_default();
    let commit = Command::new("git").args(["log", "-1", "--abbrev=9", "--format=%h %cs"]).output();
    let commit = commit.ok().filter(|output| output.status.success());
    let commit = commit.map(|output| String::from_utf8_lossy(&output.stdout).trim().to_owned());
    let build = match commit {
        Some(commit) => format!("{version} ({commit} {target})"),
        // A package from the registry has no repository.
        None => format!("{version} ({target})"),
    };
    println!("cargo::rustc-env=RAYMOND_BUILD={build}");
    // A commit changes one of these.
    println!("cargo::rerun-if-changed=../../.git/HEAD");
    println!("cargo::rerun-if-changed=../../.git/logs/HEAD");
}
