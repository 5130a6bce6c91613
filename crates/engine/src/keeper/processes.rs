//! The descendants of a process.
//!
//! Finding them means to look at every process of the machine, some 20 µs each. When a run with a thousand steps is
//! cancelled, each of its reapers asks at the same moment, several times. So one reaper looks and the others use what
//! it has seen, if it began to look after they asked. (`/proc/PID/task/TID/children` would be cheaper, but not every
//! kernel has it, and it can miss a child while another one ends.)

use std::{
    collections::HashSet,
    fs::File,
    io,
    os::{fd::AsRawFd as _, unix::fs::FileExt as _},
    time::{Duration, Instant},
};

use crate::sys::{self, Pid};

/// How long to wait for another reaper that looks, which may have been stopped. To look takes 0.1 s with 5,000
/// processes, on a busy machine much longer, and it would become slower still if everybody looked.
const LOOK_PATIENCE: Duration = Duration::from_secs(10);
/// How long to wait between two attempts, at first and at most: a thousand reapers that wait must leave the
/// processors to the one that looks.
const WAIT_MIN: Duration = Duration::from_millis(5);
const WAIT_MAX: Duration = Duration::from_millis(500);
/// More processes than Linux can have at a time.
const PROCESSES_MAX: u64 = 4 * 1024 * 1024;
/// Three numbers: how many looks have begun, which of them the table is from, and how long the table is.
const HEADER_BYTES: usize = 24;
/// A process and its parent, as [`Process::bytes`].
const ENTRY_BYTES: usize = 8;

/// What the reapers of one keeper know about the processes of the machine.
pub(super) struct Census {
    /// The table of the last look, in memory that all reapers share. A lock on it excludes the others. `None` if it
    /// could not be had: then every reaper looks for itself.
    file: Option<File>,
}

/// A question to a [`Census`]: the number of looks that had begun when it was asked.
#[derive(Clone, Copy)]
struct Asked(u64);

impl Census {
    /// The memory that a keeper and its reapers share.
    pub(super) fn memory() -> Option<File> {
        sys::memory_file(c"raymond-processes").ok()
    }

    /// The census in this memory. To be called in the process that uses it: a lock belongs to one opening of a file.
    pub(super) fn open(memory: Option<&File>) -> Self {
        let own = |memory: &File| {
            let path = format!("/proc/self/fd/{}", memory.as_raw_fd());
            File::options().read(true).write(true).open(path).ok()
        };
        Self { file: memory.and_then(own) }
    }

    /// Sends `signal` to every descendant of this process.
    pub(super) fn signal_descendants(&self, signal: i32) {
        let own = Pid::try_from(std::process::id()).unwrap_or_default();
        for pid in self.descendants(own) {
            sys::kill(pid, signal);
        }
    }

    /// All living descendants of `ancestor`, nearest first.
    fn descendants(&self, ancestor: Pid) -> Vec<Pid> {
        descendants_in(&self.processes(self.ask(), LOOK_PATIENCE), ancestor)
    }

    fn ask(&self) -> Asked {
        let header = self.file.as_ref().and_then(|file| header(file).ok());
        Asked(header.map_or(0, |[begun, ..]| begun))
    }

    /// Every process, sorted by parent, as somebody saw them after the question.
    fn processes(&self, asked: Asked, patience: Duration) -> Vec<Process> {
        let Some(file) = &self.file else { return table() };
        let began = Instant::now();
        while began.elapsed() < patience {
            match shared_table(file, asked) {
                Ok(Some(table)) => return table,
                Ok(None) => std::thread::sleep(began.elapsed().clamp(WAIT_MIN, WAIT_MAX)),
                Err(_) => break,
            }
        }
        table()
    }
}

/// The direct children of `parent`.
pub(super) fn children(parent: Pid) -> Vec<Pid> {
    look().filter(|process| process.parent == parent).map(|process| process.pid).collect()
}

#[derive(Clone, Copy)]
struct Process {
    parent: Pid,
    pid: Pid,
}

impl Process {
    fn bytes(self) -> [u8; ENTRY_BYTES] {
        let mut bytes = [0; ENTRY_BYTES];
        bytes.as_chunks_mut().0.copy_from_slice(&[self.parent, self.pid].map(Pid::to_ne_bytes));
        bytes
    }

    fn from_bytes([a, b, c, d, rest @ ..]: [u8; ENTRY_BYTES]) -> Self {
        Self { parent: Pid::from_ne_bytes([a, b, c, d]), pid: Pid::from_ne_bytes(rest) }
    }
}

/// Every process, with its parent. A process that has ended is listed until its parent collects it,
/// and ignores a signal; one whose first thread has ended only looks as if it had ended.
fn look() -> impl Iterator<Item = Process> {
    sys::processes().filter_map(|pid| Some(Process { parent: sys::parent(pid)?, pid }))
}

/// The same, sorted by parent.
fn table() -> Vec<Process> {
    let mut table: Vec<_> = look().collect();
    table.sort_unstable_by_key(|process| process.parent);
    table
}

/// The table, if its look began after the question; otherwise looks again. `None` while another reaper looks.
fn shared_table(file: &File, asked: Asked) -> io::Result<Option<Vec<Process>>> {
    if file.try_lock_shared().is_err() {
        return Ok(None);
    }
    let known = read_table(file, asked)?;
    if known.is_none() && file.try_lock().is_ok() {
        // Another reaper may have looked while this one had no lock.
        let known = read_table(file, asked)?.map_or_else(|| look_for_all(file), Ok);
        file.unlock()?;
        return known.map(Some);
    }
    file.unlock()?;
    Ok(known)
}

/// The table, if its look began after the question.
fn read_table(file: &File, Asked(asked): Asked) -> io::Result<Option<Vec<Process>>> {
    let [_, table_of, length] = header(file)?;
    if table_of <= asked {
        return Ok(None);
    }
    let length = usize::try_from(length.min(PROCESSES_MAX)).unwrap_or(0);
    let mut bytes = vec![0; length * ENTRY_BYTES];
    file.read_exact_at(&mut bytes, HEADER_BYTES as u64)?;
    Ok(Some(bytes.as_chunks().0.iter().copied().map(Process::from_bytes).collect()))
}

/// Looks, and writes the table for the others.
fn look_for_all(file: &File) -> io::Result<Vec<Process>> {
    let [begun, table_of, length] = header(file)?;
    // Before the look: a reaper that asks from now on may want something that this look misses. If this reaper is
    // killed before the table is whole, nobody takes it for the table of this look.
    write_header(file, [begun + 1, table_of, length])?;
    let found = table();
    let bytes: Vec<u8> = found.iter().copied().flat_map(Process::bytes).collect();
    file.write_all_at(&bytes, HEADER_BYTES as u64)?;
    write_header(file, [begun + 1, begun + 1, found.len() as u64])?;
    Ok(found)
}

/// The header; all zeros if there is none yet.
fn header(file: &File) -> io::Result<[u64; 3]> {
    let mut bytes = [0; HEADER_BYTES];
    file.read_at(&mut bytes, 0)?;
    let [begun, table_of, length, ..] = bytes.as_chunks().0 else { return Ok([0; 3]) };
    Ok([begun, table_of, length].map(|bytes| u64::from_ne_bytes(*bytes)))
}

fn write_header(file: &File, header: [u64; 3]) -> io::Result<()> {
    file.write_all_at(header.map(u64::to_ne_bytes).as_flattened(), 0)
}

/// All descendants of `ancestor` among these processes, nearest first.
fn descendants_in(processes: &[Process], ancestor: Pid) -> Vec<Pid> {
    let mut known = HashSet::from([ancestor]);
    let mut found = Vec::new();
    let mut next = vec![ancestor];
    while let Some(parent) = next.pop() {
        let first = processes.partition_point(|process| process.parent < parent);
        for process in processes[first..].iter().take_while(|process| process.parent == parent) {
            // Each is taken once: the listing is not atomic and can contain a cycle.
            if known.insert(process.pid) {
                found.push(process.pid);
                next.push(process.pid);
            }
        }
    }
    found
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "in tests a panic is the message")]
mod tests {
    use std::{
        io::{BufRead as _, BufReader},
        process::{Command, Stdio},
    };

    use super::*;

    #[test]
    fn descendants_of_all_generations_are_found_whatever_they_are_called() {
        // A name with brackets and spaces, as a program may give itself.
        let script = "printf ') R 1 (' > /proc/$$/comm; \
                      bash -c 'sleep 1000 & echo $! $$; wait' & wait";
        let mut command = Command::new("bash");
        command.args(["-c", script]).stdout(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let ids: Vec<Pid> = line.split_whitespace().map(|id| id.parse().unwrap()).collect();
        let [grandchild, inner] = ids[..] else { panic!("{line}") };
        let outer = Pid::try_from(child.id()).unwrap();
        let own = Pid::try_from(std::process::id()).unwrap();
        assert!(children(own).contains(&outer));
        assert_eq!(children(outer), [inner]);
        let memory = Census::memory();
        for census in [Census::open(memory.as_ref()), Census::open(None)] {
            assert_eq!(census.descendants(outer), [inner, grandchild]);
            assert!(census.descendants(own).contains(&grandchild));
            assert!(census.descendants(grandchild).is_empty());
        }
        for pid in [grandchild, inner, outer] {
            sys::kill(pid, libc::SIGKILL);
        }
        child.wait().unwrap();
    }

    /// How often somebody has looked.
    fn looks(memory: &File) -> u64 {
        header(memory).unwrap()[0]
    }

    #[test]
    fn many_who_ask_at_once_look_once() {
        let memory = Census::memory().unwrap();
        let reapers: Vec<_> = (0..100).map(|_| Census::open(Some(&memory))).collect();
        let asked: Vec<_> = reapers.iter().map(Census::ask).collect();
        let own = Pid::try_from(std::process::id()).unwrap();
        for (reaper, asked) in reapers.iter().zip(asked) {
            let seen = reaper.processes(asked, LOOK_PATIENCE);
            assert!(seen.iter().any(|process| process.pid == own));
        }
        assert_eq!(looks(&memory), 1);
    }

    #[test]
    fn process_that_exists_when_somebody_asks_is_seen_although_the_table_is_older() {
        let memory = Census::memory().unwrap();
        let [one, other] = [(); 2].map(|()| Census::open(Some(&memory)));
        let own = Pid::try_from(std::process::id()).unwrap();
        one.descendants(own);
        let mut child = Command::new("sleep").arg("1000").spawn().unwrap();
        let pid = Pid::try_from(child.id()).unwrap();
        assert!(other.descendants(own).contains(&pid));
        assert_eq!(looks(&memory), 2);
        child.kill().unwrap();
        child.wait().unwrap();
    }

    #[test]
    fn look_that_had_begun_before_the_question_is_not_used() {
        let memory = Census::memory().unwrap();
        let census = Census::open(Some(&memory));
        // Somebody has begun the first look. The question comes before the table of that look is there.
        write_header(&memory, [1, 0, 0]).unwrap();
        let asked = census.ask();
        write_header(&memory, [1, 1, 0]).unwrap();
        assert!(!census.processes(asked, LOOK_PATIENCE).is_empty());
        assert_eq!(looks(&memory), 2);
        // Somebody was killed before the table of the next look was whole.
        write_header(&memory, [3, 2, 0]).unwrap();
        assert!(!census.processes(census.ask(), LOOK_PATIENCE).is_empty());
        assert_eq!(header(&memory).unwrap()[..2], [4, 4]);
    }

    #[test]
    fn reaper_that_is_stopped_while_it_looks_holds_up_nobody_for_ever() {
        let memory = Census::memory().unwrap();
        let [stopped, other] = [(); 2].map(|()| Census::open(Some(&memory)));
        stopped.file.as_ref().unwrap().lock().unwrap();
        assert!(!other.processes(other.ask(), Duration::from_millis(1)).is_empty());
        assert_eq!(looks(&memory), 0, "it has looked for itself");
    }
}
