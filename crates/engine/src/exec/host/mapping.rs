//! Where the directory of a run is on this machine, for an agent whose checkout moves from machine to machine. The run has the
//! paths of the machine on which it was started; only the host knows others.

use std::path::Path;

use serde::{Deserialize, Serialize};

/// A directory of the run, and where it is on this machine.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Mapping {
    /// As the run knows it; absolute.
    pub logical: String,
    /// On this machine; absolute, without links.
    pub real: String,
}

impl Mapping {
    /// The path on this machine of a path that the run has.
    pub fn real(&self, path: &str) -> String {
        moved(path, &self.logical, &self.real).unwrap_or_else(|| path.to_owned())
    }

    /// The path for the run of a path on this machine. `None` if it is in the checkout of another agent, which is elsewhere
    /// for its next step.
    pub(crate) fn logical(&self, path: &str) -> Option<String> {
        if let Some(own) = moved(path, &self.real, &self.logical) {
            return Some(own);
        }
        let all = Path::new(&self.real).parent()?;
        (!Path::new(path).starts_with(all)).then(|| path.to_owned())
    }
}

/// `path`, which is below `from`, below `to`.
fn moved(path: &str, from: &str, to: &str) -> Option<String> {
    let inside = Path::new(path).strip_prefix(from).ok()?;
    let to = Path::new(to);
    // Joined with nothing, it would end with a slash.
    let moved = if inside.as_os_str().is_empty() { to.to_owned() } else { to.join(inside) };
    Some(moved.to_string_lossy().into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_of_the_checkout_are_mapped_and_others_are_not() {
        let (logical, real) = ("/home/u/p".to_owned(), "/data/c/main".to_owned());
        let mapping = Mapping { logical, real };
        for (path, real) in [
            ("/home/u/p", "/data/c/main"),
            ("/home/u/p/sub", "/data/c/main/sub"),
            ("/home/u/project", "/home/u/project"),
            ("/tmp", "/tmp"),
        ] {
            assert_eq!(mapping.real(path), real);
            assert_eq!(mapping.logical(real).as_deref(), Some(path));
        }
        assert_eq!(mapping.logical("/data/c/main_w1"), None, "that of another agent");
    }
}
