# The report for the morning.
result=${RAYMOND_RESULT-$(cat "$RAYMOND_RESULT_FILE")}
value() { printf '%s' "$result" | sed -n "s/.*\"$1\": *\"\([^\"]*\)\".*/\1/p"; }
error=$(value error) branch=$(value branch)
echo "<result>$(cat "$RAYMOND_FOLDER"/report.* 2> /dev/null)
${error:+the night ended early: $error
}$(git rev-list --count "HEAD..$branch") commits on the branch $branch</result>"
