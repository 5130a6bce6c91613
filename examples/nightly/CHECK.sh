# Commits what passes. The worktree is the worker's own, so everything in it belongs to the chore.
set -o pipefail
log=$RAYMOND_FOLDER/check.log
attempt() { bash -c "${RAYMOND_VAR_check:-make test}" && git add --all && git commit --quiet --message "$chore"; }
if [ -z "$(git status --porcelain)" ]; then
  if [ "$(git log -1 --format=%B | head -n 1)" = "$chore" ]; then echo "<result>done</result>"; else echo "<result>no change</result>"; fi
elif attempt 2>&1 | tee "$log" >&2; then
  echo "<result>done</result>"
else
  tail -n 400 "$log" > "$RAYMOND_FOLDER/problem.txt"
  echo "<goto>FIX</goto>"
fi
