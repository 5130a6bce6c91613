rm -f file-list.txt
echo "<result>$RAYMOND_WORKFLOW_ID: $RAYMOND_RESULT</result>"
