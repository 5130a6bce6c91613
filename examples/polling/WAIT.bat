@echo off
setlocal enabledelayedexpansion
set /p file=<polling-for.txt
if exist "!file!" (
  del polling-for.txt
  echo ^<fork next="LAST" file="!file!"^>SUMMARIZE^</fork^>
) else (
  rem `timeout` refuses to wait without a keyboard; a ping takes a second, the first one none.
  if not defined POLLING_SECONDS set POLLING_SECONDS=20
  set /a pings=POLLING_SECONDS+1 > nul
  ping -n !pings! 127.0.0.1 > nul
  echo ^<goto^>WAIT^</goto^>
)
