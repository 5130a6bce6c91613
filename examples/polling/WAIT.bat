@echo off
set /p waited=<polling-for.txt
if exist "%waited%" (
  del polling-for.txt
  echo ^<fork next="LAST" file="%waited%"^>SUMMARIZE^</fork^>
) else (
  timeout /t 20 /nobreak > nul
  echo ^<goto^>WAIT^</goto^>
)
