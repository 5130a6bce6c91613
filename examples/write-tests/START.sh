# Writes missing tests: an agent for one source file after the other writes tests, the project's own command runs them, and
# each file whose tests pass is a commit. What does not come to pass is stashed, and the next file has its turn.
#
# Needs  a git checkout without changes whose tests pass; --var check="npm test" (`make test` if it is not given). Only paths that
#        match --var tests='test|spec' may change; where tests are in the source files, as in Rust, name these: --var tests='\.rs$'
# Start  raymond write-tests --input "src/*.py" --var check=pytest --var max=5 --budget 5
# Costs  one to four turns for each file, at most --var max files (10)
die() {
  echo "$1" >&2
  exit 1
}
[ -n "$RAYMOND_INPUT" ] || die 'say which files need tests: --input "src/*.py"'
[ -z "$(git status --porcelain)" ] || die "commit or stash your changes first"
git var GIT_COMMITTER_IDENT > /dev/null || die "git does not know who commits: set user.name and user.email"
set -f -o pipefail
# shellcheck disable=SC2086 # several patterns, for git to expand
git ls-files -- $RAYMOND_INPUT | grep -v '"' | grep -viE "${RAYMOND_VAR_skip:-test|spec}" |
  head -n "${RAYMOND_VAR_max:-10}" > "$RAYMOND_FOLDER/files.txt"
[ -s "$RAYMOND_FOLDER/files.txt" ] || die "git knows no such files: $RAYMOND_INPUT"
bash -c "${RAYMOND_VAR_check:-make test}" 2>&1 | tee "$RAYMOND_FOLDER/check.log" >&2 ||
  die "the tests fail before anything was written: fix them first, or name the right command with --var check=\"…\""
echo "<goto>NEXT</goto>"
