@echo off
rem How large is this project? Counts, and calls a second script as a subroutine.
git ls-files > file-list.txt
echo ^<call return="REPORT"^>COUNT^</call^>
