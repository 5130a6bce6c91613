# After four drafts a person should look.
echo "<result>not approved, see RELEASE_NOTES.md. What is still wrong:
$(cat "$RAYMOND_FOLDER/problem.txt")</result>"
