# Reviews a branch: three reviewers, each with one question, look at the change at the same time and cannot edit; a fourth
# agent checks what they say against the code and writes one review, which is the result of the run.
#
# Needs  the branch checked out, and the branch that it goes to: --input main (origin's default branch if it is not given)
# Start  raymond review-branch --input main --budget 3
# Costs  four turns
base=${RAYMOND_INPUT:-$(git symbolic-ref --quiet --short refs/remotes/origin/HEAD)}
if ! from=$(git merge-base "${base:-main}" HEAD); then
  echo "say which branch this one goes to: --input BRANCH" >&2
  exit 1
fi
if git diff --quiet "$from" HEAD; then
  echo "<result>nothing to review: the branch changes nothing since ${from:0:12}</result>"
  exit
fi
# The report reads the change here; each reviewer gets it in a directory of its own.
git log --format='commit %h%n%n%B' --stat "$from..HEAD" > "$RAYMOND_FOLDER/commits.txt"
git diff "$from" HEAD > "$RAYMOND_FOLDER/changes.diff"
ask() { echo "<fork next=\"WAIT\" from=\"$from\" topic=\"$1\" question=\"$2\">LOOK</fork>"; }
ask correctness "Does the code do what the commits say, in every case? Look for wrong conditions, forgotten cases, errors that are
swallowed, races, resources that leak, and callers elsewhere that rely on what has changed."
ask tests "Would the tests fail if the change were wrong? Look for behaviour without a test, tests that cannot fail, cases at the
limits that are missing, and tests that depend on time, order or the machine."
ask design "Will the next person understand and change this without fear? Look for a simpler way, things that exist already, names
that mislead, documents that are no longer true, interfaces that are hard to take back, and input from outside that is trusted."
