@echo off
rem A script state: it runs directly and costs nothing.
setlocal enabledelayedexpansion
echo checking the part '!part!' of %RAYMOND_AGENT_ID%
echo ^<result^>!part! is done^</result^>
