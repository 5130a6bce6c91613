@echo off
rem Change this line to how your project is tested. Without `call`, a test that is a batch file would not return.
call make test > test.log 2>&1
if errorlevel 1 (
  echo ^<goto^>FIX^</goto^>
) else (
  echo ^<function return="DECIDE"^>REVIEW^</function^>
)
exit /b 0
