# Change this line to how your project is tested.
if make test > test.log 2>&1; then
  echo "<function return=\"DECIDE\">REVIEW</function>"
else
  echo "<goto>FIX</goto>"
fi
