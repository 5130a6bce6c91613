@echo off
git ls-files > file-list.txt
echo ^<call return="REPORT"^>COUNT^</call^>
