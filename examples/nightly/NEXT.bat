@echo off
rem Git brings the bash that the script needs.
git -c "alias.run=!bash" run "%RAYMOND_STATE_DIR:\=/%/NEXT.sh"
exit /b %errorlevel%
rem Never reached: what the script prints, for lint and for the diagram.
rem It reads %book%.
echo ^<result^>what was done^</result^>
echo ^<function return="NEXT" chore="%%v"^>CHORE^</function^>
