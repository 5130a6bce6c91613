# Lists the files to look at, one worker for each. The list lies in the working directory, because a
# script remembers nothing.
git ls-files '*.md' > review-list.txt
mkdir -p reviews
echo "<goto>DISPATCH</goto>"
