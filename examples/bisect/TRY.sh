# Tries the script at both ends. It must tell them apart before it is worth to search.
cd "$(git rev-parse --show-toplevel)" || exit 1
set -o pipefail
script=$RAYMOND_FOLDER/reproduce.sh
tree=$RAYMOND_FOLDER/tree
run_at() {
  git worktree remove --force "$tree" 2> /dev/null
  git worktree prune
  git worktree add --quiet --detach "$tree" "$1" >&2 || exit 1
  (cd "$tree" && bash "$script") 2>&1 | tee "$RAYMOND_FOLDER/$2.log" >&2
}
if [ -f "$script" ]; then
  run_at "$(cat "$RAYMOND_FOLDER/good")" good
  at_good=$?
  run_at "$(cat "$RAYMOND_FOLDER/bad")" bad
  at_bad=$?
  if [ $at_good = 0 ] && [ $at_bad -ge 1 ] && [ $at_bad -le 124 ]; then
    echo "<goto>SEARCH</goto>"
    exit
  fi
  {
    echo "At the good commit the script must exit with 0 and exits with $at_good. The end of its output:"
    tail -n 100 "$RAYMOND_FOLDER/good.log"
    echo "At the bad commit it must exit with 1 and exits with $at_bad. The end of its output:"
    tail -n 100 "$RAYMOND_FOLDER/bad.log"
  } > "$RAYMOND_FOLDER/problem.txt"
else
  echo "There is no file $script." > "$RAYMOND_FOLDER/problem.txt"
fi
git worktree remove --force "$tree" 2> /dev/null
if [ -z "$RAYMOND_VAR_check" ]; then
  echo "<goto>REPRODUCE</goto>"
else
  cat "$RAYMOND_FOLDER/problem.txt" >&2
  exit 1
fi
