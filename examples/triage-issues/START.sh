# Triages issues: one agent for each issue reads it and the code and returns kind, priority and the next step as data; the
# result is triage.md, a table for a person. Nothing is changed in the code or at the issue tracker.
#
# Needs  `gh`, logged in, for the open issues of the repository on GitHub that have no label; for any other tracker a directory with
#        one text file for each issue: --input issues. It needs Claude Code (`schema`)
# Start  raymond triage-issues --var max=20 --budget 3
# Costs  a turn for each issue, at most --var max (20), and one for the table
gh=${RAYMOND_VAR_gh:-gh}
if [ -d "$RAYMOND_INPUT" ]; then
  issues=$(find "$RAYMOND_INPUT" -type f ! -name '.*' ! -name '*"*' | sort)
elif [ -z "$RAYMOND_INPUT" ]; then
  issues=$($gh issue list --search 'is:open no:label' --limit 100 --json number --jq '.[].number') || exit 1
else
  echo "$RAYMOND_INPUT is not a directory of issues" >&2
  exit 1
fi
if [ -z "$issues" ]; then
  echo "<result>no issue waits for triage</result>"
  exit
fi
head -n "${RAYMOND_VAR_max:-20}" <<< "$issues" | while IFS= read -r issue; do
  echo "<fork next=\"WAIT\" limit=\"4\" issue=\"$issue\">FETCH</fork>"
done
