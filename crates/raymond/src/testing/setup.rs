//! The `setup` of a case: shell commands that prepare the working directory for the workflow.

use std::{
    collections::BTreeMap,
    io::{self, Read as _, Seek as _, Write as _},
    path::Path,
    process::{Command, ExitStatus, Stdio},
    time::{Duration, Instant},
};

use raymond_engine::exec::processes::{Mark, Tree};
use raymond_flow::source::Platform;
use tempfile::TempPath;

use crate::failure::Failure;

/// How often to check whether the setup has ended.
const INTERVAL: Duration = Duration::from_millis(2);
/// How much of its standard error is shown.
const ERROR_BYTES_MAX: u64 = 4096;

/// What a setup has left running, for the case that needs it. It ends with the case.
pub(super) struct Left {
    tree: Tree,
    mark: Mark,
}

impl Drop for Left {
    fn drop(&mut self) {
        self.tree.end(false);
        // What has left the group.
        let _ = self.mark.kill();
    }
}

/// Runs `script` in `cwd`. A timeout of zero is no limit.
pub(super) fn set_up(
    script: &str,
    environment: &BTreeMap<String, String>,
    cwd: &Path,
    timeout: Duration,
) -> Result<Left, Failure> {
    let run = || -> io::Result<(Option<ExitStatus>, Left, String)> {
        // A file instead of a pipe: a process that the setup leaves running could keep a pipe open for ever.
        let mut stderr = tempfile::tempfile()?;
        let (mut command, _file) = shell(script)?;
        command.current_dir(cwd).envs(environment);
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(stderr.try_clone()?);
        let (status, left) = wait(&mut command, timeout)?;
        let mut words = Vec::new();
        stderr.rewind()?;
        stderr.take(ERROR_BYTES_MAX).read_to_end(&mut words)?;
        Ok((status, left, String::from_utf8_lossy(&words).trim().to_owned()))
    };
    match run().map_err(|error| Failure::io("run the setup of the case", &error))? {
        (Some(status), left, _) if status.success() => Ok(left),
        (Some(_), _, words) => {
            Err(Failure::usage(format!("the setup of the case failed: {words}")))
        }
        (None, ..) => Err(Failure::usage(format!(
            "the setup of the case did not end within {timeout:?} (`timeout`)"
        ))),
    }
}

/// The command that runs `script` with the shell for scripts of this platform, and the file that it needs.
fn shell(script: &str) -> io::Result<(Command, Option<TempPath>)> {
    if Platform::HERE == Platform::Unix {
        let mut command = Command::new("bash");
        command.args(["-ec", script]);
        return Ok((command, None));
    }
    let lines = ["@echo off"].into_iter().chain(script.lines());
    let text: String = lines.flat_map(|line| [line, "\r\n"]).collect();
    // Closed before it is run: on Windows a file that is open for writing cannot be executed.
    let mut file = tempfile::Builder::new().suffix(".bat").tempfile()?;
    file.write_all(text.as_bytes())?;
    let path = file.into_temp_path();
    Ok((Command::new(&path), Some(path)))
}

/// Runs the setup to its end; `None` if that took too long.
fn wait(command: &mut Command, timeout: Duration) -> io::Result<(Option<ExitStatus>, Left)> {
    let started = Instant::now();
    let mark = Mark::put_on(command);
    let (mut child, tree) = Tree::spawn(command)?;
    let left = Left { tree, mark };
    loop {
        if let Some(status) = child.try_wait()? {
            return Ok((Some(status), left));
        }
        if !timeout.is_zero() && started.elapsed() >= timeout {
            left.tree.end(false);
            child.wait()?;
            return Ok((None, left));
        }
        std::thread::sleep(INTERVAL);
    }
}
