# Waits until a file is there, looking every 20 seconds. Each look is a step of its own, so that it
# does not count as hung; waiting costs nothing.
file=${RAYMOND_INPUT:-ready.txt}
printf '%s\n' "$file" > polling-for.txt
echo "<goto>WAIT</goto>"
