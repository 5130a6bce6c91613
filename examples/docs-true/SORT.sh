# If nobody found anything, nobody is paid to correct it.
result=${RAYMOND_RESULT-$(cat "$RAYMOND_RESULT_FILE")}
printf '%s\n' "$result" > "$RAYMOND_FOLDER/findings.json"
found=$(grep -oE '"(result|error)": ?"([^"\\]|\\.)*"' <<< "$result" | grep -cvE '"result": ?"(\\n|[ `])*none(\\n|[ `.])*"')
if [ "$found" = 0 ]; then
  echo "<result>all documents are true</result>"
else
  echo "<goto>CORRECT</goto>"
fi
