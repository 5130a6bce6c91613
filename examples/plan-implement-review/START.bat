@echo off
rem The issue is a file, given by --input. Its text is copied to where every state finds it.
setlocal enabledelayedexpansion
if not exist "!RAYMOND_INPUT!" (
  echo start this with --input FILE, where FILE is the issue 1>&2
  exit /b 1
)
if not exist .issue mkdir .issue
copy /y "!RAYMOND_INPUT!" .issue\issue.md > nul
if exist .issue\rounds del .issue\rounds
echo ^<goto^>PLAN^</goto^>
