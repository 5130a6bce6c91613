@echo off
rem Lists the files to look at, one worker for each. The list lies in the working directory, because a
rem script remembers nothing.
git ls-files *.md > review-list.txt
if not exist reviews mkdir reviews
echo ^<goto^>DISPATCH^</goto^>
