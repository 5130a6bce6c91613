# Waits for all reviewers. One that fails keeps the report waiting: fix it, then `raymond resume`.
echo '<join>REPORT</join>'
