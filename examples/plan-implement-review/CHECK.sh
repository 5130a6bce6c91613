# The project's own checks: scripts/test, make test or cargo test, whichever there is.
if [ -x scripts/test ]; then check=scripts/test
elif [ -f Makefile ]; then check="make test"
elif [ -f Cargo.toml ]; then check="cargo test --quiet"
else check=true
fi
if $check > .issue/check.log 2>&1; then
  echo "<function return=\"JUDGE\" model=\"opus\">REVIEW</function>"
else
  echo "<goto>FIX</goto>"
fi
