@echo off
for /f %%n in ('find /c /v "" ^< file-list.txt') do echo ^<result^>%%n files^</result^>
