# The worker, in its worktree. `book` is the directory with the list of chores and the report. The number of the visit is that of the
# chore, so a step that is repeated after a crash skips none.
chore() { sed -n "$1p" "$book/chores.txt"; }
if [ "$RAYMOND_VISIT" = 1 ]; then
  if [ -n "$RAYMOND_VAR_setup" ]; then bash -c "$RAYMOND_VAR_setup" >&2 || exit 1; fi
  if ! bash -c "${RAYMOND_VAR_check:-make test}" >&2; then
    echo "the check fails before the first chore; nothing was done" > "$book/report.0000"
    echo "<result>the check fails</result>"
    exit
  fi
else
  before=$((RAYMOND_VISIT - 1))
  echo "${RAYMOND_RESULT-$(cat "$RAYMOND_RESULT_FILE")}: $(chore $before)" > "$book/report.$(printf %04d $before)"
fi
next=$(chore "$RAYMOND_VISIT")
if [ -n "$next" ]; then
  echo "<function return=\"NEXT\" chore=\"$next\">CHORE</function>"
else
  echo "<result>all chores had their turn</result>"
fi
