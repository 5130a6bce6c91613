@echo off
rem Takes the first line off items.txt and starts a worker for it, until none is left.
setlocal disabledelayedexpansion
set "first="
type nul > items.rest
for /f "usebackq delims=" %%l in ("items.txt") do (
  if defined first (>> items.rest echo.%%l) else set "first=%%l"
)
move /y items.rest items.txt > nul
rem From here on !first! is text, whatever is in it: %first% would be read as a part of the command.
setlocal enabledelayedexpansion
if defined first (
  echo ^<fork next="DISPATCH" item="!first!"^>WORKER^</fork^>
) else (
  del items.txt
  echo ^<result^>every item has a worker^</result^>
)
