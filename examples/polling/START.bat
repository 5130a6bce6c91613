@echo off
set "file=%RAYMOND_INPUT%"
if "%file%"=="" set "file=ready.txt"
echo %file%> polling-for.txt
echo ^<goto^>WAIT^</goto^>
