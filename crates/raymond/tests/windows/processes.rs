//! How these tests tell whether a process lives, and stop one politely.

#![expect(unsafe_code, reason = "system calls")]

use std::{
    fs,
    os::windows::{fs::OpenOptionsExt as _, process::CommandExt as _},
    process::{Child, Stdio},
    time::Duration,
};

use windows_sys::Win32::System::{
    Console::{CTRL_BREAK_EVENT, CTRL_C_EVENT, GenerateConsoleCtrlEvent, SetConsoleCtrlHandler},
    Threading::CREATE_NEW_PROCESS_GROUP,
};

use crate::env::{Project, wait_until};

/// How long these tests wait for something that must come.
pub(crate) const PATIENCE: Duration = Duration::from_mins(1);

/// A command that runs for a quarter of an hour and has the file `name` open as long as it lives.
pub(crate) fn holding(name: &str) -> String {
    format!("ping -n 1000 127.0.0.1 > {name}")
}

/// Whether any process has the file open.
pub(crate) fn is_held(project: &Project, name: &str) -> bool {
    let path = project.file(name);
    path.exists() && fs::File::options().write(true).share_mode(0).open(path).is_err()
}

/// Waits until some process has the file open.
pub(crate) fn wait_until_held(project: &Project, name: &str) {
    wait_until("a process has the file open", PATIENCE, || is_held(project, name));
}

/// Waits until the processes that had the file open are dead.
pub(crate) fn wait_until_released(project: &Project, name: &str) {
    wait_until("the process is dead", PATIENCE, || !is_held(project, name));
}

/// Whether Wine runs this test. Its console knows no Ctrl-Break, only Ctrl-C for all who share it.
fn is_wine() -> bool {
    std::env::var_os("RAYMOND_WINE").is_some()
}

/// Starts `raymond` so that it can be interrupted without interrupting this test.
pub(crate) fn spawn_interruptible(project: &Project, arguments: &[&str]) -> Child {
    // SAFETY: the handler is a plain function. It is not inherited, as ignoring Ctrl-C would be.
    unsafe {
        SetConsoleCtrlHandler(Some(ignore), 1);
    }
    let mut command = project.command(arguments);
    command.creation_flags(if is_wine() { 0 } else { CREATE_NEW_PROCESS_GROUP });
    command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
}

unsafe extern "system" fn ignore(_kind: u32) -> i32 {
    1
}

/// Presses Ctrl-Break for it. Under Wine, presses Ctrl-C for everybody: no other test may run.
pub(crate) fn interrupt(child: &Child) {
    let (kind, group) = if is_wine() { (CTRL_C_EVENT, 0) } else { (CTRL_BREAK_EVENT, child.id()) };
    // SAFETY: no memory is involved.
    let sent = unsafe { GenerateConsoleCtrlEvent(kind, group) };
    assert_ne!(sent, 0, "{}", std::io::Error::last_os_error());
}
