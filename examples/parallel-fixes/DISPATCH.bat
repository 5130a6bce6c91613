@echo off
set "line="
set /p line=<worktrees.txt
if "%line%"=="" (
  echo ^<result^>the workers are at it: see the branches %RAYMOND_WORKFLOW_ID%-1 and on^</result^>
  exit /b 0
)
more +1 worktrees.txt > worktrees.rest
move /y worktrees.rest worktrees.txt > nul
for /f "tokens=1,* delims=	" %%t in ("%line%") do (
  echo ^<fork next="DISPATCH" cd="%%t" piece="%%u"^>FIX^</fork^>
)
