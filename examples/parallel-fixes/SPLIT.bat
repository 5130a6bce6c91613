@echo off
setlocal enabledelayedexpansion
if not exist ..\pieces mkdir ..\pieces
set number=0
type nul > worktrees.txt
for /f "usebackq delims=" %%p in ("pieces.txt") do (
  set /a number+=1
  git worktree add --quiet -b %RAYMOND_WORKFLOW_ID%-!number! ..\pieces\%RAYMOND_WORKFLOW_ID%-!number! 1>&2
  echo %CD%\..\pieces\%RAYMOND_WORKFLOW_ID%-!number!	%%p>> worktrees.txt
)
echo ^<goto^>DISPATCH^</goto^>
