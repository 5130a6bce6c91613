# The one who verifies starts afresh: it must not believe the map.
printf '%s\n' "${RAYMOND_RESULT-$(cat "$RAYMOND_RESULT_FILE")}" > "$RAYMOND_FOLDER/findings.json"
echo "<reset>VERIFY</reset>"
