# Runs the tests; commits them if they pass and nothing else was changed.
set -o pipefail
attempt() {
  git add --all
  others=$(git diff --cached --name-only HEAD | grep -viE "${RAYMOND_VAR_tests:-test|spec}")
  if [ -n "$others" ]; then
    printf 'These files are no tests, and must be as they were:\n%s\n' "$others"
    return 1
  fi
  bash -c "${RAYMOND_VAR_check:-make test}" && git commit --quiet --message "Test $file"
}
if [ "$(git log -1 --format=%s)" = "Test $file" ]; then
  echo "<result>tested</result>"
elif [ -z "$(git status --porcelain)" ]; then
  echo "<result>no new tests</result>"
elif attempt 2>&1 | tee "$RAYMOND_FOLDER/check.log" >&2; then
  echo "<result>tested</result>"
else
  tail -n 400 "$RAYMOND_FOLDER/check.log" > "$RAYMOND_FOLDER/problem.txt"
  echo "<goto>FIX</goto>"
fi
