@echo off
set "check=ver"
if exist Makefile set "check=make test"
if exist Cargo.toml set "check=cargo test --quiet"
%check% > .issue\check.log 2>&1 && (
  echo ^<function return="JUDGE" model="opus"^>REVIEW^</function^>
) || (
  echo ^<goto^>MEND^</goto^>
)
exit /b 0
