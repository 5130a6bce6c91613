# Does small chores at night, in a git worktree of its own: an agent does one chore after the other, the project's own command
# checks it, and each that passes is a commit on one branch. In the morning a person looks at the branch and merges it, or not.
#
# Needs  a file with one chore a line (.chores, or --input FILE; lines with # are comments), and no uncommitted changes of tracked files.
#        --var check="npm test" (`make test` if it is not given); --var setup="npm ci" if a fresh checkout needs a command first
# Start  raymond nightly --var setup="npm ci" --var check="npm test" --budget 5 --no-wait
#        with cron: 0 2 * * * cd /path/to/project && raymond start /path/to/nightly --budget 5 --no-wait
# Costs  one to three turns for each chore
chores=${RAYMOND_INPUT:-.chores}
if [ ! -f "$chores" ]; then
  echo "write your chores to the file $chores, one a line" >&2
  exit 1
fi
grep -vE '^[[:space:]]*(#|$)' "$chores" | tr '"' "'" > "$RAYMOND_FOLDER/chores.txt"
if [ ! -s "$RAYMOND_FOLDER/chores.txt" ]; then
  echo "<result>there are no chores</result>"
else
  echo "<fork next=\"WAIT\" worktree=\"chores\" book=\"$RAYMOND_FOLDER\">NEXT</fork>"
fi
