@echo off
rem Starts a reviewer for each file, four at a time, in one go.
setlocal disabledelayedexpansion
set "any="
for /f "delims=" %%f in ('git ls-files *.md') do (
  set "any=yes"
  echo ^<fork next="WAIT" limit="4" file="%%f"^>REVIEW^</fork^>
)
if not defined any echo ^<result^>there is nothing to review^</result^>
