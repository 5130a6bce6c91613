# Every worker ends here, in its own worktree, on its own branch.
git add --all
if git diff --cached --quiet; then
  echo "<result>nothing was changed</result>"
elif git commit --quiet --message "$piece"; then
  echo "<result>committed on $(git branch --show-current)</result>"
else
  echo "<goto>REPAIR</goto>"
fi
