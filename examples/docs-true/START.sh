# Keeps documents true: one agent for each document compares it with the code and cannot edit; one agent corrects what is
# false, and nothing but documents may change. Nothing is committed.
#
# Needs  a git checkout without changes; --input "docs/*.md" names the documents (all *.md, *.rst and *.adoc if it is not given);
#        --var check="make docs" if a command can check them
# Start  raymond docs-true --input "README.md docs/*.md" --budget 5
# Costs  a turn for each document, at most --var max (20), and one to four for the corrections
if [ -n "$(git status --porcelain)" ]; then
  echo "commit or stash your changes first" >&2
  exit 1
fi
set -f
# shellcheck disable=SC2086 # several patterns, for git to expand
files=$(git ls-files -- ${RAYMOND_INPUT:-*.md *.rst *.adoc} | grep -v '"' | head -n "${RAYMOND_VAR_max:-20}")
if [ -z "$files" ]; then
  echo "<result>there are no such documents</result>"
  exit
fi
git ls-files -- ${RAYMOND_INPUT:-*.md *.rst *.adoc} > "$RAYMOND_FOLDER/documents.txt"
while IFS= read -r file; do
  echo "<fork next=\"WAIT\" limit=\"4\" file=\"$file\">COMPARE</fork>"
done <<< "$files"
