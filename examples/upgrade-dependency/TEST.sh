# Installs, tests and commits. The output of whatever fails goes to the agent.
set -o pipefail
log=$RAYMOND_FOLDER/check.log
attempt() {
  if [ -n "$RAYMOND_VAR_install" ]; then bash -c "$RAYMOND_VAR_install" || return; fi
  bash -c "${RAYMOND_VAR_check:-make test}" || return
  git add --all && { git diff --cached --quiet || git commit --quiet --message "Upgrade $(cat "$RAYMOND_FOLDER/upgrade.txt")"; }
}
if attempt 2>&1 | tee "$log" >&2; then
  echo "<result>upgraded and tested, on the branch $(git branch --show-current): $(git log -1 --format=%s)</result>"
else
  tail -n 400 "$log" > "$RAYMOND_FOLDER/problem.txt"
  echo "<goto>FIX</goto>"
fi
