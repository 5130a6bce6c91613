@echo off
git ls-files *.md > review-list.txt
if not exist reviews mkdir reviews
echo ^<goto^>DISPATCH^</goto^>
