# Gives the reviewer the change. An agent may read its own directory, not that of another.
git log --format='commit %h%n%n%B' --stat "$from..HEAD" > "$RAYMOND_FOLDER/commits.txt"
git diff "$from" HEAD > "$RAYMOND_FOLDER/changes.diff"
echo "<goto>REVIEW</goto>"
