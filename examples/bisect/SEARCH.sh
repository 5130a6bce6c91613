# git searches. The state of a bisection belongs to its worktree, so one of the user's is not disturbed.
tree=$RAYMOND_FOLDER/tree
[ -d "$tree" ] || git worktree add --quiet --force --detach "$tree" "$(cat "$RAYMOND_FOLDER/bad")" >&2
cd "$tree" || exit 1
git bisect start "$(cat "$RAYMOND_FOLDER/bad")" "$(cat "$RAYMOND_FOLDER/good")" >&2 || exit 1
git bisect run bash "$RAYMOND_FOLDER/reproduce.sh" 2>&1 | tee "$RAYMOND_FOLDER/search.log" >&2
if grep -q ' is the first .*bad.* commit' "$RAYMOND_FOLDER/search.log"; then
  found=$(git log -1 --format='%h %s' refs/bisect/bad | tr -d '"<>')
  git show --stat --patch refs/bisect/bad > "$RAYMOND_FOLDER/commit.txt"
else
  found="no commit"
  tail -n 100 "$RAYMOND_FOLDER/search.log" > "$RAYMOND_FOLDER/problem.txt"
fi
cd "$RAYMOND_FOLDER" && git -C "$tree" bisect reset >&2
git -C "$tree" worktree remove --force "$tree"
echo "<goto input=\"$found\">EXPLAIN</goto>"
