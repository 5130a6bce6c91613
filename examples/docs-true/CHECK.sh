# Only documents may have changed, and the command that checks them must pass.
set -o pipefail
attempt() {
  if [ -n "$RAYMOND_VAR_check" ]; then bash -c "$RAYMOND_VAR_check" || return; fi
  others=$(git status --porcelain | cut -c 4- | grep -vxF -f "$RAYMOND_FOLDER/documents.txt")
  [ -z "$others" ] || { printf 'These files are no documents, and must be as they were:\n%s\n' "$others"; return 1; }
}
if attempt 2>&1 | tee "$RAYMOND_FOLDER/check.log" >&2; then
  echo "<result>corrected, see git diff:
$(git diff --stat)</result>"
else
  tail -n 200 "$RAYMOND_FOLDER/check.log" > "$RAYMOND_FOLDER/problem.txt"
  echo "<goto>CORRECT</goto>"
fi
