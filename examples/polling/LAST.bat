@echo off
echo ^<result^>the file is there, and a worker reads it^</result^>
