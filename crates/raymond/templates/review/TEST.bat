@echo off
rem Change this line to how your project is tested.
make test > test.log 2>&1 && (
  echo ^<function return="DECIDE"^>REVIEW^</function^>
) || (
  echo ^<goto^>FIX^</goto^>
)
exit /b 0
