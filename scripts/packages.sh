# Sourced by the other scripts: installs the Debian packages that are missing, and says so. Nothing to do: says nothing.
STROBE_PACKAGES="build-essential cmake ninja-build ccache git curl ca-certificates python3 python3-pip
  libboost1.81-dev libsimdjson-dev nlohmann-json3-dev libcli11-dev libspdlog-dev libfmt-dev libgtest-dev libgmock-dev"
STROBE_PAGE_PACKAGES=(chromium chromium-driver fonts-dejavu-core)  # for the page's tests

install_packages() {
  local missing="" package
  for package in $STROBE_PACKAGES "$@"; do
    dpkg-query -W -f='${Status}' "$package" 2>/dev/null | grep -q "ok installed" || missing="$missing $package"
  done
  [ -z "$missing" ] && return 0
  echo "installing Debian packages:$missing"
  local root=""
  if [ "$(id -u)" != 0 ]; then
    if ! command -v sudo >/dev/null; then
      echo "strobe: these packages are missing and need root to install:$missing" >&2
      return 1
    fi
    root="sudo"
  fi
  $root apt-get update -q >/dev/null
  # shellcheck disable=SC2086  # the list is meant to be split
  DEBIAN_FRONTEND=noninteractive $root apt-get install -y -q --no-install-recommends $missing >/dev/null
}
