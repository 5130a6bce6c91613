# Takes the first file off the list and starts a worker for it, until none is left.
file=$(head -n 1 review-list.txt)
if [ -z "$file" ]; then
  rm -f review-list.txt
  echo "<result>all files are being reviewed, see reviews/</result>"
else
  tail -n +2 review-list.txt > review-list.rest
  mv review-list.rest review-list.txt
  echo "<fork next=\"DISPATCH\" file=\"$file\">REVIEW</fork>"
fi
