# A worker that fails, or spends too much on a chore, does not lose what was committed before.
echo '<join failed="pass">DONE</join>'
