@echo off
set "first="
set /p first=<review-list.txt
if "%first%"=="" (
  echo ^<result^>all files are being reviewed, see reviews^</result^>
) else (
  more +1 review-list.txt > review-list.rest
  move /y review-list.rest review-list.txt > nul
  echo ^<fork next="DISPATCH" file="%first%"^>REVIEW^</fork^>
)
