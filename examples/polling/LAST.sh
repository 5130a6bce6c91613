echo "<result>the file is there, and somebody reads it</result>"
