@echo off
rem Tries the command that the run was given, and fixes what is wrong until it succeeds.
setlocal enabledelayedexpansion
if not defined RAYMOND_INPUT set "RAYMOND_INPUT=make check"
> .attempt-command.bat echo !RAYMOND_INPUT!
echo ^<goto^>CHECK^</goto^>
