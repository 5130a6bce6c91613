# Writes release notes from the commits: an agent drafts them for users, a script checks that each item names commits of this
# release, and a second agent checks them against the commits. The result is RELEASE_NOTES.md.
#
# Needs  a git checkout; --input v1.2 is the release before (the last tag if it is not given)
# Start  raymond release-notes --budget 2
# Costs  two to eight turns
from=${RAYMOND_INPUT:-$(git describe --tags --abbrev=0 2> /dev/null)}
if ! git rev-parse --verify --quiet "$from^{commit}" >&2; then
  echo "say what the release before was: --input TAG" >&2
  exit 1
fi
git rev-list --abbrev-commit --abbrev=12 "$from..HEAD" > "$RAYMOND_FOLDER/commits.txt"
if [ ! -s "$RAYMOND_FOLDER/commits.txt" ]; then
  echo "<result>no commit since $from</result>"
  exit
fi
git log --no-merges --abbrev=12 --stat=100 --format='commit %h%nAuthor: %an%n%n%w(0,2,2)%B' "$from..HEAD" > "$RAYMOND_FOLDER/log.txt"
git diff --stat=100 "$from" HEAD > "$RAYMOND_FOLDER/files.txt"
echo "<goto>DRAFT</goto>"
