//! The token that every request needs, and how wrong ones are limited.
//!
//! The loopback is shared with every user of the machine, so being there proves nothing.

use std::{
    io,
    path::Path,
    sync::{Mutex, PoisonError},
    time::{Duration, Instant},
};

use raymond_engine::{
    store::user,
    trust::{private, regular},
};

/// The file of the token in the user's state directory.
pub(crate) const FILE: &str = "serve.token";
/// 256 bits.
const TOKEN_BYTES: usize = 32;
/// The same as hexadecimal digits.
const TOKEN_CHARS: usize = TOKEN_BYTES * 2;
/// The largest file that says where a server listens.
const PLACE_BYTES_MAX: u64 = 4096;
/// How many wrong tokens get the answer "unauthorized" in [`WINDOW`]. 256 bits cannot be guessed; this limit stops a
/// program with an old token from retrying in a tight loop.
const WRONG_MAX: u32 = 20;
const WINDOW: Duration = Duration::from_mins(1);

/// The token of this user's servers.
pub(crate) struct ServerToken {
    text: String,
    /// Since when wrong tokens are counted, and how many came.
    wrong: Mutex<(Instant, u32)>,
}

/// The result of checking the token of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TokenCheck {
    Right,
    Wrong,
    /// Wrong, as were too many before it.
    WrongAgain,
}

impl std::fmt::Debug for ServerToken {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("ServerToken(…)")
    }
}

impl ServerToken {
    /// The token in the file at `path`, which is made if it is not there. It stays the same, so that an open page
    /// goes on after a restart of the server.
    pub(crate) fn load(path: &Path) -> io::Result<Self> {
        // Servers that start at the same time: one makes the token, the others wait and find it.
        let lock = path.with_extension("lock");
        let lock = private::options().create(true).append(true).open(lock)?;
        lock.lock()?;
        let is_token = |text: &str| {
            text.len() == TOKEN_CHARS && text.bytes().all(|byte| byte.is_ascii_hexdigit())
        };
        let known = regular::read_text(path, TOKEN_CHARS as u64 + 1).ok();
        let known = known.map(|text| text.trim_end().to_owned()).filter(|text| is_token(text));
        let text = if let Some(text) = known {
            text
        } else {
            let text = random()?;
            // A file of the user that is no token, a link for instance, is replaced and not written to.
            user::replace(path, text.as_bytes())?;
            text
        };
        private::tighten(path)?;
        Ok(Self { text, wrong: Mutex::new((Instant::now(), 0)) })
    }

    /// The token, for the link that is printed.
    pub(crate) fn text(&self) -> &str {
        &self.text
    }

    /// Compares in a time that does not depend on where the first difference is. The right token always passes: else
    /// any user of the machine could lock the owner out.
    pub(crate) fn check(&self, shown: &[u8]) -> TokenCheck {
        if is_equal(self.text.as_bytes(), shown) {
            return TokenCheck::Right;
        }
        let mut wrong = self.wrong.lock().unwrap_or_else(PoisonError::into_inner);
        let (since, count) = &mut *wrong;
        if since.elapsed() > WINDOW {
            (*since, *count) = (Instant::now(), 0);
        }
        *count = count.saturating_add(1);
        if *count > WRONG_MAX { TokenCheck::WrongAgain } else { TokenCheck::Wrong }
    }
}

/// The link to the page of the server that was started last, with its token; `None` if none was started.
pub fn last_link(user_dir: &user::UserDir) -> Option<String> {
    let text = regular::read_text(&user_dir.file(crate::listen::PLACE), PLACE_BYTES_MAX).ok()?;
    let place: serde_json::Value = serde_json::from_str(&text).ok()?;
    let token = regular::read_text(&user_dir.file(FILE), TOKEN_CHARS as u64 + 1).ok()?;
    Some(crate::listen::link(place["url"].as_str()?, token.trim_end()))
}

fn is_equal(one: &[u8], other: &[u8]) -> bool {
    if one.len() != other.len() {
        // Its length is no secret.
        return false;
    }
    let pairs = one.iter().zip(other);
    let difference = pairs.fold(0, |all, (one, other)| std::hint::black_box(all | (one ^ other)));
    difference == 0
}

/// 256 random bits, as hexadecimal digits.
pub(crate) fn random() -> io::Result<String> {
    let mut bytes = [0; TOKEN_BYTES];
    getrandom::fill(&mut bytes).map_err(io::Error::other)?;
    let digits = bytes.iter().flat_map(|byte| [byte >> 4, byte & 15]);
    Ok(digits.filter_map(|digit| char::from_digit(digit.into(), 16)).collect())
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "in tests a panic is the message")]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn token_is_made_once_and_only_its_owner_can_read_it() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("token");
        let token = ServerToken::load(&path).unwrap();
        assert_eq!(token.text().len(), 64);
        assert_eq!(ServerToken::load(&path).unwrap().text(), token.text());
        #[cfg(unix)]
        {
            use std::os::unix::fs::PermissionsExt as _;
            assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
            fs::set_permissions(&path, fs::Permissions::from_mode(0o644)).unwrap();
            ServerToken::load(&path).unwrap();
            assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        }
    }

    #[test]
    fn servers_that_start_together_have_one_token() {
        let folder = tempfile::tempdir().unwrap();
        for round in 0..20 {
            let path = folder.path().join(round.to_string()).with_extension("token");
            if round % 2 == 1 {
                fs::write(&path, "no token").unwrap();
            }
            let start = std::sync::Barrier::new(8);
            let tokens: std::collections::BTreeSet<_> = std::thread::scope(|scope| {
                let load = || {
                    start.wait();
                    ServerToken::load(&path).unwrap().text
                };
                let threads: Vec<_> = (0..8).map(|_| scope.spawn(load)).collect();
                threads.into_iter().map(|thread| thread.join().unwrap()).collect()
            });
            assert_eq!(tokens.len(), 1, "round {round}");
            assert_eq!(fs::read_to_string(&path).unwrap(), *tokens.first().unwrap());
        }
    }

    #[test]
    fn file_that_holds_no_token_is_replaced() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("token");
        fs::write(&path, "short").unwrap();
        let token = ServerToken::load(&path).unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), token.text());
    }

    #[test]
    fn wrong_tokens_are_limited_and_the_right_one_always_passes() {
        let folder = tempfile::tempdir().unwrap();
        let token = ServerToken::load(&folder.path().join("token")).unwrap();
        let wrong = "0".repeat(64);
        let shown: Vec<_> = (0..=WRONG_MAX).map(|_| token.check(wrong.as_bytes())).collect();
        assert_eq!(shown.first(), Some(&TokenCheck::Wrong));
        assert_eq!(shown.last(), Some(&TokenCheck::WrongAgain));
        assert_eq!(token.check(token.text().as_bytes()), TokenCheck::Right);
        assert_eq!(token.check(&token.text().as_bytes()[1..]), TokenCheck::WrongAgain);
    }
}
