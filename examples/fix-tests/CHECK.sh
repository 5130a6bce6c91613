# Runs the tests again. If they pass, somebody else looks at the change.
set -o pipefail
if bash -c "${RAYMOND_VAR_check:-make test}" 2>&1 | tee "$RAYMOND_FOLDER/check.log" >&2; then
  git add --intent-to-add --all
  git diff HEAD > "$RAYMOND_FOLDER/changes.diff"
  git reset --quiet
  echo "<function return=\"VERDICT\">REVIEW</function>"
else
  tail -n 400 "$RAYMOND_FOLDER/check.log" > "$RAYMOND_FOLDER/problem.txt"
  echo "<goto>FIX</goto>"
fi
