@echo off
rem RAYMOND_VISIT is the number of the attempt.
cmd /c .attempt-command.bat > .attempt.log 2>&1
if not errorlevel 1 goto good
echo ^<goto input="attempt %RAYMOND_VISIT%"^>FIX^</goto^>
exit /b 0
:good
set /a fixes=RAYMOND_VISIT-1
echo ^<result^>it succeeds after %fixes% fixes^</result^>
