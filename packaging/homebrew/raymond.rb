# Homebrew formula of Raymond. scripts/release fills in version, address and sums.
class Raymond < Formula
  desc "Runs multi-step work through AI coding agents"
  homepage "@URL@"
  version "@VERSION@"
  license any_of: ["MIT", "Apache-2.0"]

  on_macos do
    on_arm do
      url "@URL@/raymond-@VERSION@-aarch64-apple-darwin.tar.gz"
      sha256 "@SHA256_aarch64-apple-darwin@"
    end
    on_intel do
      url "@URL@/raymond-@VERSION@-x86_64-apple-darwin.tar.gz"
      sha256 "@SHA256_x86_64-apple-darwin@"
    end
  end

  on_linux do
    on_arm do
      url "@URL@/raymond-@VERSION@-aarch64-unknown-linux-musl.tar.gz"
      sha256 "@SHA256_aarch64-unknown-linux-musl@"
    end
    on_intel do
      url "@URL@/raymond-@VERSION@-x86_64-unknown-linux-musl.tar.gz"
      sha256 "@SHA256_x86_64-unknown-linux-musl@"
    end
  end

  def install
    bin.install "raymond"
    bin.install "raymond-cluster" if OS.linux?
    bash_completion.install "completions/raymond.bash" => "raymond"
    zsh_completion.install "completions/_raymond"
    fish_completion.install "completions/raymond.fish"
    man1.install Dir["man/*.1"]
  end

  test do
    assert_match version.to_s, shell_output("#{bin}/raymond --version")
  end
end
