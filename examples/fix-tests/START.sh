# Fixes failing tests: an agent changes the code until the tests pass, and a second one, which has not seen the first at
# work, refuses a fix that only silences a test. Nothing is committed.
#
# Needs  a git checkout without changes, and the command that runs the tests (`make test` if --var check is not given)
# Start  raymond fix-tests --var check="npm test" --budget 3
# Costs  nothing if the tests pass; else a turn for each attempt, at most five, and one for each review
if [ -n "$(git status --porcelain)" ]; then
  echo "commit or stash your changes first: the review must see those of the agent alone" >&2
  exit 1
fi
set -o pipefail
bash -c "${RAYMOND_VAR_check:-make test}" 2>&1 | tee "$RAYMOND_FOLDER/check.log" >&2
case $? in
0) echo "<result>the tests pass already</result>" ;;
126 | 127)
  echo "the command for the tests cannot be run: name it with --var check=\"…\"" >&2
  exit 1
  ;;
*)
  tail -n 400 "$RAYMOND_FOLDER/check.log" > "$RAYMOND_FOLDER/problem.txt"
  echo "<goto>FIX</goto>"
  ;;
esac
