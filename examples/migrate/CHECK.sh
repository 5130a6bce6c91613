# Checks the migrated file and commits it.
set -o pipefail
attempt() { bash -c "${RAYMOND_VAR_check:-make test}" && git add --all && git commit --quiet --message "Migrate $file"; }
if [ "$(git log -1 --format=%s)" = "Migrate $file" ]; then
  echo "<result>migrated</result>"
elif [ -z "$(git status --porcelain)" ]; then
  echo "<result>not changed</result>"
elif attempt 2>&1 | tee "$RAYMOND_FOLDER/check.log" >&2; then
  echo "<result>migrated</result>"
else
  tail -n 400 "$RAYMOND_FOLDER/check.log" > "$RAYMOND_FOLDER/problem.txt"
  echo "<goto>FIX</goto>"
fi
