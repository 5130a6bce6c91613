# Starts a worker for each task, four at a time. Each has a git worktree and a branch of its own.
mv tasks.txt "$RAYMOND_FOLDER/tasks.txt" 2>/dev/null
if ! grep -q '[^[:space:]]' "$RAYMOND_FOLDER/tasks.txt"; then
  echo "<result>there is nothing to do</result>"
  exit
fi
while IFS= read -r task || [ -n "$task" ]; do
  [ -z "$task" ] || printf '<fork next="NEXT" worktree="true" limit="4" task="%s">WORK</fork>\n' "${task//\"/}"
done < "$RAYMOND_FOLDER/tasks.txt"
