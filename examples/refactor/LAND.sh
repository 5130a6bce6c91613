# Merges the branch of the worker that has ended. Can be repeated: a merge that was cut off is begun again.
result=${RAYMOND_RESULT-$(cat "$RAYMOND_RESULT_FILE")}
report=$RAYMOND_FOLDER/report.txt
value() { printf '%s' "$result" | sed -n "s/.*\"$1\":\"\([^\"]*\)\".*/\1/p"; }
if [ "$result" = "[]" ]; then
  echo "<result>on the branch $(git branch --show-current):
$(cat "$report")</result>"
  exit
fi
agent=$(value agent) branch=$(value branch)
note() { grep -qxF "$1" "$report" 2> /dev/null || echo "$1" >> "$report"; }
case $result in *'"error":"'*)
  note "failed: $agent, ${branch:-without a branch}"
  echo "<goto>NEXT</goto>"
  exit
  ;;
esac
[ ! -e "$(git rev-parse --git-path MERGE_HEAD)" ] || git merge --abort
[ "$(cat "$RAYMOND_FOLDER/branch" 2> /dev/null)" = "$branch" ] || git rev-parse HEAD > "$RAYMOND_FOLDER/before"
echo "$branch" > "$RAYMOND_FOLDER/branch"
if git merge --quiet --no-ff -m "Land $branch" "$branch" >&2; then
  echo "<goto>GATE</goto>"
  exit
fi
files=$(git diff --name-only --diff-filter=U | tr '\n' ' ')
if [ -n "$files" ]; then
  echo "<function return=\"GATE\" branch=\"$branch\" conflicts=\"${files//\"/}\">RESOLVE</function>"
else
  note "not merged: $branch"
  echo "<goto>NEXT</goto>"
fi
