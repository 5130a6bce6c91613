@echo off
set "first="
set /p first=<items.txt
if "%first%"=="" (
  del items.txt
  echo ^<result^>every item has a worker^</result^>
) else (
  more +1 items.txt > items.rest
  move /y items.rest items.txt > nul
  echo ^<fork next="DISPATCH" item="%first%"^>WORKER^</fork^>
)
