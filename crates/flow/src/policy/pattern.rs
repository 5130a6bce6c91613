//! How large the regular expressions of evaluators may be.
//!
//! A few characters can stand for a program of any size: `((a{99}){99}){99}`. Compiling it to find that out
//! takes long, so reading a state file only parses the patterns and computes their size. A pattern is compiled
//! when there is an answer to match.

use regex_syntax::hir::{Class, Hir, HirKind};

/// The largest size of all patterns of one state together: about 160 times `\w`. Compiled, this takes
/// some megabytes and a tenth of a second.
pub(crate) const PATTERNS_SIZE_MAX: u64 = 500_000;

/// The most that one compiled pattern may take: more than any that [`PATTERNS_SIZE_MAX`] lets through,
/// so that none fails after its answer was paid for.
const COMPILED_BYTES_MAX: usize = 64 * 1024 * 1024;

/// The size of a pattern, or why it is invalid. About the number of bytes and character ranges that
/// it is compiled from, with every repetition written out.
pub(crate) fn pattern_size(pattern: &str) -> Result<u64, String> {
    regex_syntax::parse(pattern).map(|read| size(&read)).map_err(|error| error.to_string())
}

/// Compiles a pattern that was parsed before.
pub(super) fn compile(pattern: &str) -> Result<regex::Regex, regex::Error> {
    regex::RegexBuilder::new(pattern).size_limit(COMPILED_BYTES_MAX).build()
}

/// The parser limits how deep expressions nest, and so this recursion.
fn size(read: &Hir) -> u64 {
    /// A character range becomes several byte sequences.
    const OF_A_RANGE: u64 = 4;
    let own = match read.kind() {
        HirKind::Empty | HirKind::Look(_) => 0,
        HirKind::Literal(literal) => literal.0.len() as u64,
        HirKind::Class(Class::Unicode(class)) => OF_A_RANGE * class.ranges().len() as u64,
        HirKind::Class(Class::Bytes(class)) => class.ranges().len() as u64,
        HirKind::Repetition(repetition) => {
            let times = repetition.max.unwrap_or(repetition.min.saturating_add(1));
            size(&repetition.sub).saturating_mul(u64::from(times))
        }
        HirKind::Capture(capture) => size(&capture.sub),
        HirKind::Concat(parts) | HirKind::Alternation(parts) => {
            parts.iter().map(size).fold(0, u64::saturating_add)
        }
    };
    own.saturating_add(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pattern_size_counts_repetitions() {
        assert!(pattern_size("(?i)cannot proceed").unwrap() < 500);
        let once = pattern_size(r"\w").unwrap();
        let fifty = pattern_size(r"\w{50}").unwrap();
        assert!(fifty > 49 * once && fifty < PATTERNS_SIZE_MAX, "{once} {fifty}");
        for huge in ["((a{99}){99}){99}", "((((a{999}){999}){999}){999}){999}", r"(\w{99}){9}"] {
            assert!(pattern_size(huge).unwrap() > PATTERNS_SIZE_MAX, "{huge}");
        }
    }

    #[test]
    fn pattern_of_the_largest_size_can_be_compiled() {
        for one in ["a", r"\w", "[^a]", "(?i)ab", "."] {
            let times = PATTERNS_SIZE_MAX / pattern_size(one).unwrap();
            let pattern = format!("(?:(?:{one}){{{}}}){{9}}", times / 10);
            assert!(pattern_size(&pattern).unwrap() <= PATTERNS_SIZE_MAX, "{pattern}");
            compile(&pattern).unwrap();
        }
    }

    #[test]
    fn pattern_that_cannot_be_read_says_why() {
        assert!(pattern_size("a(b").unwrap_err().contains("unclosed group"));
    }
}
