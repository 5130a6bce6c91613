#!/bin/sh
# Installs Raymond @VERSION@ for one user: downloads the archive of this system, checks its sum, and puts the program into
# ~/.local/bin. It never needs root, and changes nothing else.
#
#   RAYMOND_INSTALL_DIR   another directory for the program
#   RAYMOND_INSTALL_URL   another place to download from
set -eu

version="@VERSION@"
url="${RAYMOND_INSTALL_URL:-@URL@}"
bin="${RAYMOND_INSTALL_DIR:-${HOME:?"HOME is not set"}/.local/bin}"

fail() {
  printf 'install.sh: %s\n' "$1" >&2
  exit 1
}

get() { # address file
  if command -v curl >/dev/null 2>&1; then
    curl --fail --silent --show-error --location --output "$2" "$1"
  elif command -v wget >/dev/null 2>&1; then
    wget --quiet --output-document="$2" "$1"
  else
    fail "neither curl nor wget is installed: install one of them"
  fi || fail "cannot download $1"
}

# All is in a function, so that a download that breaks off runs nothing.
main() {
  [ "$(id -u)" != 0 ] || [ "${RAYMOND_INSTALL_AS_ROOT:-}" = 1 ] ||
    fail "do not run this as root: it installs for one user. In a container: RAYMOND_INSTALL_AS_ROOT=1"
  system=$(uname -s)
  machine=$(uname -m)
  case "$system $machine" in
    "Linux x86_64" | "Linux amd64") target=x86_64-unknown-linux-musl ;;
    "Linux aarch64" | "Linux arm64") target=aarch64-unknown-linux-musl ;;
    "Darwin arm64") target=aarch64-apple-darwin ;;
    "Darwin x86_64") target=x86_64-apple-darwin ;;
    *) fail "there is no program for $system on $machine. With Rust: cargo install raymond" ;;
  esac
  name="raymond-$version-$target"
  work=$(mktemp -d)
  trap 'rm -rf "$work"' EXIT
  get "$url/SHA256SUMS" "$work/SHA256SUMS"
  get "$url/$name.tar.gz" "$work/$name.tar.gz"
  wanted=$(sed -n "s/^\([0-9a-f]\{64\}\)  $name\.tar\.gz\$/\1/p" "$work/SHA256SUMS")
  if command -v sha256sum >/dev/null 2>&1; then
    found=$(sha256sum "$work/$name.tar.gz")
  else
    found=$(shasum -a 256 "$work/$name.tar.gz")
  fi
  found=${found%% *}
  [ -n "$wanted" ] && [ "$found" = "$wanted" ] || fail "the sum of $name.tar.gz is $found, but should be ${wanted:-in SHA256SUMS}: nothing was installed"
  tar -xzf "$work/$name.tar.gz" -C "$work"
  mkdir -p "$bin"
  for program in raymond raymond-cluster; do
    [ -f "$work/$name/$program" ] || continue
    # Renamed into place, so that a program that runs is not overwritten.
    cp "$work/$name/$program" "$bin/.$program.new"
    mv -f "$bin/.$program.new" "$bin/$program"
  done
  printf 'raymond %s is %s/raymond\n' "$version" "$bin"
  case ":$PATH:" in
    *":$bin:"*) printf 'try it: raymond demo\n' ;;
    *) printf 'Add it to your path: export PATH="%s:$PATH"\nthen try it: raymond demo\n' "$bin" ;;
  esac
}

main
