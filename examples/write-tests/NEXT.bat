@echo off
rem Git brings the bash that the script needs.
git -c "alias.run=!bash" run "%RAYMOND_STATE_DIR:\=/%/NEXT.sh"
exit /b %errorlevel%
rem Never reached: what the script prints, for lint and for the diagram.
echo ^<function return="NEXT" file="%%v"^>WRITE^</function^>
echo ^<result^>what was done^</result^>
