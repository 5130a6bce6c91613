# The reviewer's word: done, or back to the one who fixes.
verdict=${RAYMOND_RESULT-$(cat "$RAYMOND_RESULT_FILE")}
if [[ $verdict =~ ^[[:space:]]*approved ]]; then
  echo "<result>the tests pass, and the fix was approved: see git diff</result>"
else
  printf 'The tests pass, but a reviewer refuses the change:\n\n%s\n' "$verdict" > "$RAYMOND_FOLDER/problem.txt"
  echo "<goto>FIX</goto>"
fi
