# Waits for the next worker. One that fails is handed over, too.
echo '<join count="1" failed="pass">LAND</join>'
