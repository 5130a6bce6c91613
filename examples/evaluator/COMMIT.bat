@echo off
git commit --quiet --all --message "Remove a warning of the linter" && (
  echo ^<result^>committed^</result^>
) || (
  echo ^<result^>there was nothing to commit^</result^>
)
exit /b 0
