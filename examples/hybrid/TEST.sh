if make test > test.log 2>&1; then
  echo "<result>the tests pass</result>"
else
  echo "<goto>FIX</goto>"
fi
