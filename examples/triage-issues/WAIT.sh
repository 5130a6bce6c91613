# An issue whose agent fails is in the table as an error.
echo '<join failed="pass">TABLE</join>'
