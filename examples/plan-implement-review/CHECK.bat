@echo off
rem The project's own checks: scripts\test.bat, make test or cargo test, whichever there is.
set "check=ver"
if exist Cargo.toml set "check=cargo test --quiet"
if exist Makefile set "check=make test"
if exist scripts\test.bat set "check=scripts\test.bat"
call %check% > .issue\check.log 2>&1
if errorlevel 1 (
  echo ^<goto^>FIX^</goto^>
) else (
  echo ^<function return="JUDGE" model="opus"^>REVIEW^</function^>
)
exit /b 0
