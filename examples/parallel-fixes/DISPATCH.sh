# Starts a worker in each worktree. It is told its piece by the attribute, and where by cd.
line=$(head -n 1 worktrees.txt)
if [ -z "$line" ]; then
  rm -f worktrees.txt
  echo "<result>the workers are at it: see the branches $RAYMOND_WORKFLOW_ID-1 and on</result>"
else
  tail -n +2 worktrees.txt > worktrees.rest
  mv worktrees.rest worktrees.txt
  tree=${line%%$'\t'*}
  piece=${line#*$'\t'}
  echo "<fork next=\"DISPATCH\" cd=\"$tree\" piece=\"$piece\">FIX</fork>"
fi
