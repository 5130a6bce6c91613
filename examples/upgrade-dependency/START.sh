# Upgrades one dependency: an agent changes the manifest and the code that the new version breaks, the project's own commands
# install and test it, and what passes is committed to a branch of its own.
#
# Needs  a git checkout without changes whose tests pass; --var install="npm install" if a command must update what is
#        installed or locked; --var check="npm test" (`make test` if it is not given)
# Start  raymond upgrade-dependency --input "react to 19" --var install="npm install" --var check="npm test" --budget 5
# Costs  a turn for the upgrade and one for each time that the tests fail after it, at most six
die() {
  echo "$1" >&2
  exit 1
}
[ -n "$RAYMOND_INPUT$RAYMOND_INPUT_FILE" ] || die 'say what to upgrade: --input "NAME to VERSION"'
[ -z "$(git status --porcelain)" ] || die "commit or stash your changes first"
git var GIT_COMMITTER_IDENT > /dev/null || die "git does not know who commits: set user.name and user.email"
set -o pipefail
bash -c "${RAYMOND_VAR_check:-make test}" 2>&1 | tee "$RAYMOND_FOLDER/before.log" >&2 ||
  die "the tests fail before the upgrade: fix them first, or name the right command with --var check=\"…\""
cat "${RAYMOND_INPUT_FILE:--}" <<< "$RAYMOND_INPUT" > "$RAYMOND_FOLDER/upgrade.txt"
git switch --quiet --create "$RAYMOND_WORKFLOW_ID" 2> /dev/null || git switch --quiet "$RAYMOND_WORKFLOW_ID" || exit 1
echo "<goto>UPGRADE</goto>"
