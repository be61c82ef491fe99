# Sourced by the other scripts: packages, configure and build. Needs bash and `root`, the repository's folder.

# Without these nothing builds.
required_packages=(g++ cmake ninja-build libsqlite3-dev nlohmann-json3-dev libcli11-dev libfmt-dev libexpected-dev)
# Without one of these a part is left out, and configuring names it.
optional_packages=(ccache lld git pkg-config python3 libgtest-dev libgmock-dev libbenchmark-dev libdnnl-dev libucx-dev openmpi-bin
  zlib1g-dev liburing-dev libpcre2-dev libutf8proc-dev libtomlplusplus-dev libyaml-cpp-dev libimgui-dev libstb-dev libglfw3-dev libegl-dev libgl-dev libgl1-mesa-dri libegl-mesa0 libfreetype-dev
  libpng-dev fonts-inter fonts-jetbrains-mono fonts-font-awesome xvfb xauth xdotool)

say() { printf '%s\n' "$*" >&2; }

# Ignores variables that change the build or its speed, such as a GEMM core type of another CPU or stub libraries.
unset OPENBLAS_CORETYPE OPENBLAS_L2_SIZE LIBRARY_PATH CPATH CPLUS_INCLUDE_PATH CXXFLAGS LDFLAGS

# Prints the given packages that are not installed.
missing_packages() {
  local package
  for package in "$@"; do
    dpkg-query -W -f '${db:Status-Status}\n' "$package" 2>/dev/null | grep -qx installed || printf '%s\n' "$package"
  done
}

as_root() {
  if [ "$(id -u)" = 0 ]; then
    "$@"
  elif command -v sudo >/dev/null; then
    sudo "$@"
  else
    say "not root, and sudo is not installed"
    return 1
  fi
}

install_packages() {
  as_root env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends \
    -o DPkg::Lock::Timeout=300 "$@" </dev/null >&2
}

# Installs missing packages with apt-get. Fails only if a required package is still missing afterwards.
ensure_packages() {
  local missing still package
  if ! command -v dpkg-query >/dev/null || ! command -v apt-get >/dev/null; then
    say "no dpkg here: assuming that the required packages are installed"
    return 0
  fi
  mapfile -t missing < <(missing_packages "${required_packages[@]}" "${optional_packages[@]}")
  [ ${#missing[@]} -gt 0 ] || return 0
  say "missing packages: ${missing[*]}"
  as_root apt-get update -qq -o DPkg::Lock::Timeout=300 </dev/null >&2 || say "apt-get update failed; trying with the lists at hand"
  if ! install_packages "${missing[@]}"; then
    # One unknown name must not block the others.
    for package in "${missing[@]}"; do install_packages "$package" || say "could not install $package"; done
  fi
  mapfile -t still < <(missing_packages "${required_packages[@]}")
  if [ ${#still[@]} -gt 0 ]; then
    say "required packages are missing: install them with: apt-get install ${still[*]}"
    return 1
  fi
}

# Installs the checkers of tools/format and tools/tidy, which no build needs. Fails if one is still missing.
ensure_checkers() {
  local missing
  mapfile -t missing < <(missing_packages clang-format clang-tidy)
  [ ${#missing[@]} = 0 ] || install_packages "${missing[@]}"
}

# Copies the lines that count build steps from stdin to stderr, as one changing line on a terminal.
show_steps() {
  if [ -t 2 ]; then
    awk '/^\[[0-9]+\/[0-9]+\]/ { printf "\r\033[K%.100s", $0; fflush() } END { printf "\r\033[K" }' >&2
  else
    sed -un '/^\[[0-9]*\/[0-9]*\]/p' >&2
  fi
}

# configure_and_build PRESET [target...]: prints progress, and errors if it fails, on stderr. The full output is in
# configure.log and build.log of the build folder.
configure_and_build() {
  local preset=$1 log=$root/build/$1/configure.log built=$root/build/$1/build.log target targets=()
  shift
  for target in "$@"; do targets+=(--target "$target"); done
  mkdir -p "$root/build/$preset"
  say "configuring preset $preset"
  if ! (cd "$root" && cmake --preset "$preset") >"$log" 2>&1; then
    cat "$log" >&2
    return 1
  fi
  sed -n '/^-- foretrain /,/^-- Configuring done/p' "$log" | grep -v '^-- Configuring done' >&2 || true
  if ! (set -o pipefail && cmake --build "$root/build/$preset" "${targets[@]}" 2>&1 | tee "$built" | show_steps); then
    grep -v '^\[[0-9]*/[0-9]*\]' "$built" | tail -n 200 >&2
    say "full output: $built"
    return 1
  fi
}
