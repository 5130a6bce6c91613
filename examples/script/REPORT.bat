@echo off
setlocal enabledelayedexpansion
del file-list.txt
echo ^<result^>%RAYMOND_WORKFLOW_ID%: !RAYMOND_RESULT!^</result^>
