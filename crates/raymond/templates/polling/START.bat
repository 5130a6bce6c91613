@echo off
rem Change this line to what you wait for. Each look is a step of its own and costs nothing.
if exist ready.txt (
  echo ^<goto^>ACT^</goto^>
) else (
  timeout /t 20 /nobreak > nul
  echo ^<goto^>START^</goto^>
)
