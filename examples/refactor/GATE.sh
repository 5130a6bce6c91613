# The gate: a merge that the checks do not pass is undone. Its branch stays.
branch=$(cat "$RAYMOND_FOLDER/branch") before=$(cat "$RAYMOND_FOLDER/before")
report=$RAYMOND_FOLDER/report.txt
note() { grep -qxF "$1" "$report" 2> /dev/null || echo "$1" >> "$report"; }
if [ -e "$(git rev-parse --git-path MERGE_HEAD)" ]; then
  if git diff --name-only --diff-filter=U -z | xargs -0 grep -lE '^(<{7}|>{7}) ' >&2; then
    git merge --abort
    note "conflicts: $branch"
  else
    git add --update && git commit --quiet --no-edit >&2 || exit 1
  fi
fi
if git merge-base --is-ancestor "$branch" HEAD; then
  set -o pipefail
  if bash -c "${RAYMOND_VAR_check:-make check}" 2>&1 | tee "$RAYMOND_FOLDER/check.log" >&2; then
    note "landed: $branch"
  else
    git reset --quiet --hard "$before"
    note "undone, the checks fail: $branch"
  fi
fi
echo "<goto>NEXT</goto>"
