# Puts the text of the issue where its agent may read it.
if [ -f "$issue" ]; then
  cp "$issue" "$RAYMOND_FOLDER/issue.txt" || exit 1
else
  ${RAYMOND_VAR_gh:-gh} issue view "$issue" --json title,author,body,comments > "$RAYMOND_FOLDER/issue.txt" || exit 1
fi
echo "<goto>TRIAGE</goto>"
