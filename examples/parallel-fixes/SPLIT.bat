@echo off
rem One git worktree for each piece, so that the workers do not disturb each other. The next state takes
rem them one after the other.
setlocal disabledelayedexpansion
git rev-parse --show-cdup > nul
if errorlevel 1 exit /b 1
set "up="
for /f "delims=" %%u in ('git rev-parse --show-cdup') do set "up=%%u"
if not exist "%up%..\pieces" mkdir "%up%..\pieces"
for %%d in ("%up%..\pieces") do set "pieces=%%~fd"
set number=0
type nul > worktrees.txt
for /f "usebackq delims=" %%p in ("pieces.txt") do (
  set /a number+=1 > nul
  set "piece=%%p"
  setlocal enabledelayedexpansion
  set "name=%RAYMOND_WORKFLOW_ID%-!number!"
  git worktree add --quiet -b "!name!" "%up%..\pieces\!name!" 1>&2
  if errorlevel 1 exit /b 1
  >> worktrees.txt echo !pieces!\!name!
  >> worktrees.txt echo !piece!
  endlocal
)
if %number% == 0 (
  echo ^<result^>there is nothing to do: pieces.txt is empty^</result^>
) else (
  echo ^<goto^>DISPATCH^</goto^>
)
