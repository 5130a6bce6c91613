# Keeps the unfinished change in the stash.
if [ -n "$(git status --porcelain)" ]; then
  git stash push --quiet --include-untracked --message "unfinished migration of $file" >&2 || exit 1
fi
echo "<result>stashed, the checks fail</result>"
