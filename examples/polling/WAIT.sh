file=$(cat polling-for.txt)
if [ -e "$file" ]; then
  rm polling-for.txt
  echo "<fork next=\"LAST\" file=\"$file\">SUMMARIZE</fork>"
else
  sleep "${POLLING_SECONDS:-20}"
  echo "<goto>WAIT</goto>"
fi
