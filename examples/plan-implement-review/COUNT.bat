@echo off
echo round>> .issue\rounds
for /f %%n in ('find /c /v "" ^< .issue\rounds') do set rounds=%%n
if %rounds% geq 3 (echo ^<goto^>DONE^</goto^>) else (echo ^<goto^>CHECK^</goto^>)
