# Finds the commit that broke something: an agent writes a script that tells good from bad, unless --var check is such a command; the
# script is tried at both ends; git bisect does the search, without a model; an agent explains the commit. All of it happens in a
# worktree, so the checkout is not touched.
#
# Needs  --var good=v1.2, a commit where it still worked, and --var bad=… if it is not HEAD. A check must build what it needs by itself,
#        because a worktree has no ignored files. It exits with 0 at a good commit, with 125 if it cannot tell, else with 1 to 124
# Start  raymond bisect --input "The export drops the last line" --var good=v1.2 --budget 3
# Costs  a turn to explain, and one to four for the script if there is no check
die() {
  echo "$1" >&2
  exit 1
}
good=$(git rev-parse --verify --quiet "${RAYMOND_VAR_good}^{commit}") || die "name a good commit: --var good=v1.2"
bad=$(git rev-parse --verify --quiet "${RAYMOND_VAR_bad:-HEAD}^{commit}") || die "there is no commit $RAYMOND_VAR_bad"
git merge-base --is-ancestor "$good" "$bad" || die "the good commit is not an ancestor of the bad one"
echo "$good" > "$RAYMOND_FOLDER/good"
echo "$bad" > "$RAYMOND_FOLDER/bad"
cat "${RAYMOND_INPUT_FILE:--}" <<< "${RAYMOND_INPUT:-The check fails: $RAYMOND_VAR_check}" > "$RAYMOND_FOLDER/regression.txt"
if [ -n "$RAYMOND_VAR_check" ]; then
  printf '%s\n' "$RAYMOND_VAR_check" > "$RAYMOND_FOLDER/reproduce.sh"
  echo "<goto>TRY</goto>"
else
  echo "<goto>REPRODUCE</goto>"
fi
