# Template of the Homebrew formula. `packaging/formula 1.2.3 https://example.org/releases` fills it in from the
# checksums that goreleaser wrote (dist/checksums.txt).
class Iotax < Formula
  desc "Measures what every layer between an application and the disk costs"
  homepage "@FROM@"
  version "@VERSION@"
  license "Apache-2.0"

  depends_on "fio"

  on_macos do
    on_arm do
      url "@FROM@/iotax_@VERSION@_darwin_arm64.tar.gz"
      sha256 "@darwin_arm64@"
    end
    on_intel do
      url "@FROM@/iotax_@VERSION@_darwin_amd64.tar.gz"
      sha256 "@darwin_amd64@"
    end
  end

  on_linux do
    on_arm do
      url "@FROM@/iotax_@VERSION@_linux_arm64.tar.gz"
      sha256 "@linux_arm64@"
    end
    on_intel do
      url "@FROM@/iotax_@VERSION@_linux_amd64.tar.gz"
      sha256 "@linux_amd64@"
    end
  end

  def install
    bin.install "iotax"
    man1.install Dir["man/*.1.gz"]
    bash_completion.install "completion/iotax.bash" => "iotax"
    zsh_completion.install "completion/_iotax"
    fish_completion.install "completion/iotax.fish"
  end

  test do
    assert_match version.to_s, shell_output("#{bin}/iotax --version")
    system bin/"iotax", "suites"
  end
end
