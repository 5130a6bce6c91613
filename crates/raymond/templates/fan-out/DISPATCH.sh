# Takes the first line off items.txt and starts a worker for it, until none is left.
item=$(head -n 1 items.txt)
if [ -z "$item" ]; then
  rm -f items.txt
  echo "<result>every item has a worker</result>"
else
  tail -n +2 items.txt > items.rest
  mv items.rest items.txt
  echo "<fork next=\"DISPATCH\" item=\"$item\">WORKER</fork>"
fi
