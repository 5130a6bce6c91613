@echo off
rem Every worker ends here, in its own worktree, on its own branch.
setlocal enabledelayedexpansion
git add --all
git diff --cached --quiet
if not errorlevel 1 (
  echo ^<result^>nothing was changed^</result^>
  exit /b 0
)
git commit --quiet --message "!piece!"
if errorlevel 1 (
  echo ^<goto^>REPAIR^</goto^>
) else (
  for /f %%b in ('git branch --show-current') do echo ^<result^>committed on %%b^</result^>
)
exit /b 0
