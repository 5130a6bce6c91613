@echo off
git add --all
git diff --cached --quiet && (
  echo ^<result^>nothing was changed^</result^>
  exit /b 0
)
git commit --quiet --message "%piece%" && (
  echo ^<result^>committed^</result^>
) || (
  echo ^<goto^>MEND^</goto^>
)
exit /b 0
