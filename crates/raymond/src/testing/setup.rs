//! The `setup` of a case: shell commands that make the working directory what the workflow expects.

use std::{
    collections::BTreeMap,
    io::{self, Read as _, Seek as _},
    path::Path,
    process::{Child, Command, ExitStatus, Stdio},
    time::{Duration, Instant},
};

use crate::failure::Failure;

/// How often it is looked whether the setup has ended.
const INTERVAL: Duration = Duration::from_millis(2);
/// How much of what it complains about is shown.
const ERROR_BYTES_MAX: u64 = 4096;

/// Runs `script` in `cwd`. Zero is no limit of time.
pub(super) fn set_up(
    script: &str,
    environment: &BTreeMap<String, String>,
    cwd: &Path,
    timeout: Duration,
) -> Result<(), Failure> {
    let run = || -> io::Result<(Option<ExitStatus>, String)> {
        // A file and no pipe: what the setup leaves running could keep a pipe open for ever.
        let mut stderr = tempfile::tempfile()?;
        let mut command = Command::new("bash");
        command.args(["-ec", script]).current_dir(cwd).envs(environment);
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(stderr.try_clone()?);
        // A group of its own, so that everything that it starts can be killed with it.
        #[cfg(unix)]
        std::os::unix::process::CommandExt::process_group(&mut command, 0);
        let status = wait(command.spawn()?, timeout)?;
        let mut words = Vec::new();
        stderr.rewind()?;
        stderr.take(ERROR_BYTES_MAX).read_to_end(&mut words)?;
        Ok((status, String::from_utf8_lossy(&words).trim().to_owned()))
    };
    match run().map_err(|error| Failure::io("run the setup of the case", &error))? {
        (Some(status), _) if status.success() => Ok(()),
        (Some(_), words) => Err(Failure::usage(format!("the setup of the case failed: {words}"))),
        (None, _) => Err(Failure::usage(format!(
            "the setup of the case did not end within {timeout:?} (`timeout`)"
        ))),
    }
}

/// Waits for the end of the setup; `None` if it had to be killed.
fn wait(mut child: Child, timeout: Duration) -> io::Result<Option<ExitStatus>> {
    let started = Instant::now();
    loop {
        if let Some(status) = child.try_wait()? {
            return Ok(Some(status));
        }
        if !timeout.is_zero() && started.elapsed() >= timeout {
            #[cfg(unix)]
            let _ = Command::new("bash")
                .args(["-c", &format!("kill -KILL -- -{}", child.id())])
                .status();
            let _ = child.kill();
            child.wait()?;
            return Ok(None);
        }
        std::thread::sleep(INTERVAL);
    }
}
