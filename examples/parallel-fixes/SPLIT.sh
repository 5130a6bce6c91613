# One git worktree for each piece, so that the workers do not disturb each other. The next state takes
# them one after the other.
top=$(git rev-parse --show-toplevel) || exit 1
mkdir -p "$top/../pieces"
number=0
: > worktrees.txt
while IFS= read -r piece; do
  [ -n "$piece" ] || continue
  number=$((number + 1))
  tree=$(cd "$top/../pieces" && pwd)/$RAYMOND_WORKFLOW_ID-$number
  git worktree add --quiet -b "$RAYMOND_WORKFLOW_ID-$number" "$tree" >&2 || exit 1
  printf '%s\t%s\n' "$tree" "$piece" >> worktrees.txt
done < pieces.txt
if [ "$number" = 0 ]; then
  echo "<result>there is nothing to do: pieces.txt is empty</result>"
else
  echo "<goto>DISPATCH</goto>"
fi
