@echo off
rem Three rounds of review are enough: after that a person should look.
>> .issue\rounds echo round
set rounds=0
for /f %%r in (.issue\rounds) do set /a rounds+=1 > nul
if %rounds% geq 3 (echo ^<goto^>DONE^</goto^>) else (echo ^<goto^>CHECK^</goto^>)
