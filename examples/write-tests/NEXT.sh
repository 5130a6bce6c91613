# The number of the visit is that of the file, so a step that is repeated after a crash skips none.
name() { sed -n "$1p" "$RAYMOND_FOLDER/files.txt"; }
if [ "$RAYMOND_VISIT" -gt 1 ]; then
  before=$((RAYMOND_VISIT - 1))
  echo "$(name $before): ${RAYMOND_RESULT-$(cat "$RAYMOND_RESULT_FILE")}" > "$RAYMOND_FOLDER/report.$(printf %04d $before)"
fi
file=$(name "$RAYMOND_VISIT")
if [ -n "$file" ]; then
  echo "<function return=\"NEXT\" file=\"$file\">WRITE</function>"
else
  echo "<result>$(cat "$RAYMOND_FOLDER"/report.*)</result>"
fi
