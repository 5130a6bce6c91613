@echo off
call make test > test.log 2>&1
if errorlevel 1 (
  echo ^<goto^>FIX^</goto^>
) else (
  echo ^<result^>the tests pass^</result^>
)
exit /b 0
