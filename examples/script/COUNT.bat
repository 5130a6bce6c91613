@echo off
set count=0
for /f "usebackq delims=" %%l in ("file-list.txt") do set /a count+=1 > nul
echo ^<result^>%count% files^</result^>
