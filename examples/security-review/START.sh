# Reviews the security of a code base: an agent maps where input from outside comes in and splits that among up to six
# reviewers; each follows its part through the code; a last agent, in a fresh session, tries to refute each finding and writes the report,
# which is the result of the run. None of them can edit or run anything.
#
# Needs  a checkout; --input "src/server" narrows it to a part
# Start  raymond security-review --budget 8
# Costs  three to eight long turns
cat "${RAYMOND_INPUT_FILE:--}" <<< "${RAYMOND_INPUT:-the whole project}" > "$RAYMOND_FOLDER/scope.txt"
git ls-files > "$RAYMOND_FOLDER/files.txt" || exit 1
echo "<goto>MAP</goto>"
