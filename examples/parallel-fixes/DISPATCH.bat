@echo off
rem Starts a worker in each worktree. It is told its piece by the attribute, and where by cd.
setlocal disabledelayedexpansion
set "tree="
set "piece="
type nul > worktrees.rest
for /f "usebackq delims=" %%l in ("worktrees.txt") do (
  if defined piece (>> worktrees.rest echo.%%l) else if defined tree (set "piece=%%l") else set "tree=%%l"
)
move /y worktrees.rest worktrees.txt > nul
rem From here on !piece! is text, whatever is in it: %piece% would be read as a part of the command.
setlocal enabledelayedexpansion
if defined piece (
  echo ^<fork next="DISPATCH" cd="!tree!" piece="!piece!"^>FIX^</fork^>
) else (
  del worktrees.txt
  echo ^<result^>the workers are at it: see the branches %RAYMOND_WORKFLOW_ID%-1 and on^</result^>
)
