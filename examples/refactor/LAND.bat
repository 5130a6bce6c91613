@echo off
rem Git brings the bash that the script needs.
git -c "alias.run=!bash" run "%RAYMOND_STATE_DIR:\=/%/LAND.sh"
exit /b %errorlevel%
rem Never reached: what the script prints, for lint and for the diagram.
echo ^<result^>what was done^</result^>
echo ^<goto^>NEXT^</goto^>
echo ^<goto^>GATE^</goto^>
echo ^<function return="GATE" branch="%%v" conflicts="%%v"/}"^>RESOLVE^</function^>
