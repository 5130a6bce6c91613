# Refactors with several agents at once: one splits the work into tasks, up to four do one each in git worktrees of their own, and
# their branches are merged as they come. A merge that the checks do not pass is undone; a conflict goes to an agent. What lands,
# lands on a new branch.
#
# Needs  a git checkout without changes whose checks pass; --var check="npm test" (`make check` if it is not given)
# Start  raymond refactor --input "Split the module server into routing, sessions and storage" --var check="npm test" --budget 20
# Costs  a turn for the plan, one for each of up to eight tasks, and one for each conflict
die() {
  echo "$1" >&2
  exit 1
}
[ -n "$RAYMOND_INPUT$RAYMOND_INPUT_FILE" ] || die 'say what to refactor: --input "Split …"'
[ -z "$(git status --porcelain)" ] || die "commit or stash your changes first: each worker begins at the last commit"
git var GIT_COMMITTER_IDENT > /dev/null || die "git does not know who commits: set user.name and user.email"
set -o pipefail
bash -c "${RAYMOND_VAR_check:-make check}" 2>&1 | tee "$RAYMOND_FOLDER/check.log" >&2 ||
  die "the checks fail before the work begins, so nothing could land: mend them, or name the command with --var check=\"…\""
cat "${RAYMOND_INPUT_FILE:--}" <<< "$RAYMOND_INPUT" > "$RAYMOND_FOLDER/request.txt"
git switch --quiet --create "$RAYMOND_WORKFLOW_ID" 2> /dev/null || git switch --quiet "$RAYMOND_WORKFLOW_ID" || exit 1
echo "<goto>PLAN</goto>"
