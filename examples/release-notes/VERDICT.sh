# The reviewer's word: done, or back to the draft.
verdict=${RAYMOND_RESULT-$(cat "$RAYMOND_RESULT_FILE")}
if [[ $verdict =~ ^[[:space:]]*approved ]]; then
  echo "<result>$(cat RELEASE_NOTES.md)</result>"
else
  printf '%s\n' "$verdict" > "$RAYMOND_FOLDER/problem.txt"
  echo "<goto>DRAFT</goto>"
fi
