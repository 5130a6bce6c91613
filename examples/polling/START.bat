@echo off
rem Waits until a file is there, looking every 20 seconds. Each look is a step of its own, so that it
rem does not count as hung; waiting costs nothing.
setlocal enabledelayedexpansion
set "file=ready.txt"
if defined RAYMOND_INPUT set "file=!RAYMOND_INPUT!"
> polling-for.txt echo !file!
echo ^<goto^>WAIT^</goto^>
