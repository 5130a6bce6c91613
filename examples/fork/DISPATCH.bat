@echo off
rem Takes the first file off the list and starts a worker for it, until none is left.
setlocal disabledelayedexpansion
set "first="
type nul > review-list.rest
for /f "usebackq delims=" %%l in ("review-list.txt") do (
  if defined first (>> review-list.rest echo.%%l) else set "first=%%l"
)
move /y review-list.rest review-list.txt > nul
rem From here on !first! is text, whatever is in it: %first% would be read as a part of the command.
setlocal enabledelayedexpansion
if defined first (
  echo ^<fork next="DISPATCH" file="!first!"^>REVIEW^</fork^>
) else (
  del review-list.txt
  echo ^<result^>all files are being reviewed, see reviews/^</result^>
)
