echo "<result>$(wc -l < file-list.txt | tr -d ' ') files</result>"
