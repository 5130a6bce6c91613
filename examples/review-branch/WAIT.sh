# A reviewer that fails does not hold up the others; the report says that it is missing.
echo '<join failed="pass">REPORT</join>'
