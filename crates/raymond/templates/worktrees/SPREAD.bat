@echo off
rem Git brings the bash that the script needs.
git -c "alias.run=!bash" run "%RAYMOND_STATE_DIR:\=/%/SPREAD.sh"
exit /b %errorlevel%
rem Never reached: what the script prints, for lint and for the diagram.
echo ^<fork next="NEXT" worktree="true" limit="4" task="%%t"^>WORK^</fork^>
echo ^<result^>there is nothing to do^</result^>
