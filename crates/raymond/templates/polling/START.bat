@echo off
rem Change this line to what you wait for. Each look is a step of its own and costs nothing.
if exist ready.txt (
  echo ^<goto^>ACT^</goto^>
) else (
  rem Twenty seconds: `timeout` refuses to wait without a keyboard.
  ping -n 21 127.0.0.1 > nul
  echo ^<goto^>START^</goto^>
)
