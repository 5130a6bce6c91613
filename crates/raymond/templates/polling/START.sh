# Change this line to what you wait for. Each look is a step of its own and costs nothing.
if [ -e ready.txt ]; then
  echo "<goto>ACT</goto>"
else
  sleep 20
  echo "<goto>START</goto>"
fi
