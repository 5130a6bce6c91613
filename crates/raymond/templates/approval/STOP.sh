rm -f plan.md
echo "<result>stopped</result>"
