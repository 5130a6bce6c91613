//! Links that have come in place of a worktree, or of a directory that it is in.

use std::os::unix::fs::symlink;

use super::*;

fn is_refused_for(repository: &Repository, worktree: &Worktree, place: &Path) {
    let is_link = |error: &GitError| matches!(error, GitError::Link { path, .. } if path == place);
    assert!(is_link(&remove(worktree, &around(worktree), true, false).unwrap_err()));
    assert!(is_link(&diff(worktree, 10_000).unwrap_err()));
    let landing = Landing::at(&repository.path()).unwrap();
    assert!(is_link(&landing.land(worktree, "m", true).unwrap_err()));
    let problem = save_of("main_w1", worktree).problem.unwrap();
    assert!(problem.contains(&format!("{} is a link to ", place.display())), "{problem}");
}

#[test]
fn nothing_is_done_through_a_link_in_place_of_a_worktree() {
    let repository = Repository::new();
    let (own, _) = repository.make("main_w1").unwrap();
    let (other, cwd) = repository.make("main_w2").unwrap();
    let precious = Path::new(&cwd).join("precious");
    fs::write(&precious, "mine").unwrap();
    fs::remove_dir_all(&own.path).unwrap();
    symlink(&other.path, &own.path).unwrap();
    is_refused_for(&repository, &own, Path::new(&own.path));
    assert!(precious.exists());
}

#[test]
fn nothing_is_done_through_a_link_in_place_of_a_directory_that_a_worktree_is_in() {
    let repository = Repository::new();
    let (own, cwd) = repository.make("main_w1").unwrap();
    let precious = Path::new(&cwd).join("precious");
    fs::write(&precious, "mine").unwrap();
    let moved = repository.root.path().join("moved");
    let state_dir = repository.folder().ancestors().nth(2).unwrap().to_owned();
    for place in [repository.folder(), state_dir.join("worktrees"), state_dir] {
        fs::rename(&place, &moved).unwrap();
        symlink(&moved, &place).unwrap();
        is_refused_for(&repository, &own, &place);
        fs::remove_file(&place).unwrap();
        fs::rename(&moved, &place).unwrap();
        assert!(precious.exists());
    }
}
