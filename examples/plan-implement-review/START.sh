# The issue is a file, given by --input. Its text is copied to where every state finds it.
issue=$RAYMOND_INPUT
if [ ! -f "$issue" ]; then
  echo "start this with --input FILE, where FILE is the issue" >&2
  exit 1
fi
mkdir -p .issue
cp "$issue" .issue/issue.md
rm -f .issue/rounds
echo "<goto>PLAN</goto>"
