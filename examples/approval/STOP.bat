@echo off
if exist plan.md del plan.md
echo ^<result^>stopped^</result^>
