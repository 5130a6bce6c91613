# Every item must name commits of this release: an item that was made up is seen here, without a model.
problem=$RAYMOND_FOLDER/problem.txt
: > "$problem"
[ -s RELEASE_NOTES.md ] || echo "there is no RELEASE_NOTES.md" >> "$problem"
while IFS= read -r line || [ -n "$line" ]; do
  case $line in
  '* '* | '- '*) ;;
  *) continue ;;
  esac
  commits=$(sed -n 's/.*(\([0-9a-f, ]*\))[[:space:].]*$/\1/p' <<< "$line" | tr ', ' '\n\n' | grep .)
  [ -n "$commits" ] || echo "this item names no commits in parentheses at its end: $line" >> "$problem"
  for commit in $commits; do
    grep -qxF "$commit" "$RAYMOND_FOLDER/commits.txt" || echo "$commit is not a commit of this release: $line" >> "$problem"
  done
done < <(cat RELEASE_NOTES.md 2> /dev/null)
if [ -s "$problem" ]; then
  echo "<goto>DRAFT</goto>"
else
  echo "<function return=\"VERDICT\">REVIEW</function>"
fi
