# Migrates a code base file by file: an agent in a fresh session changes one file after the other as the instruction says, the
# project's own command checks it, and each file that passes is a commit. What does not pass is stashed, and the next has its turn.
#
# Needs  a git checkout without changes whose checks pass; --var files="src/*.js", in git's patterns; --var check="npm test" (`make test`
#        if it is not given). The project must work with some files migrated and others not
# Start  raymond migrate --input "Replace moment by date-fns" --var files="src/*.js" --var check="npm test" --budget 20
#        A long instruction comes from a file: --input - < migration.md. Try it with --var max=3 first
# Costs  one to four turns for each file, at most --var max files (50)
die() {
  echo "$1" >&2
  exit 1
}
[ -n "$RAYMOND_INPUT$RAYMOND_INPUT_FILE" ] || die 'say what to change: --input "Replace … by …"'
[ -n "$RAYMOND_VAR_files" ] || die 'say which files: --var files="src/*.js"'
[ -z "$(git status --porcelain)" ] || die "commit or stash your changes first"
git var GIT_COMMITTER_IDENT > /dev/null || die "git does not know who commits: set user.name and user.email"
set -f -o pipefail
# shellcheck disable=SC2086 # several patterns, for git to expand
git ls-files -- $RAYMOND_VAR_files | grep -v '"' | head -n "${RAYMOND_VAR_max:-50}" > "$RAYMOND_FOLDER/files.txt"
[ -s "$RAYMOND_FOLDER/files.txt" ] || die "git knows no such files: $RAYMOND_VAR_files"
bash -c "${RAYMOND_VAR_check:-make test}" 2>&1 | tee "$RAYMOND_FOLDER/check.log" >&2 ||
  die "the checks fail before the migration: fix them first, or name the right command with --var check=\"…\""
cat "${RAYMOND_INPUT_FILE:--}" <<< "$RAYMOND_INPUT" > "$RAYMOND_FOLDER/instruction.txt"
echo "<goto>NEXT</goto>"
