#!/usr/bin/env bash
# Makes a checkout ready: tools/setup.sh [run|test|bench]. Installs only what is missing, says what it did, and may be repeated.
set -euo pipefail
cd "$(dirname "$0")/.."
purpose=${1:-run}

say() { printf 'setup: %s\n' "$*" >&2; }
fail() { say "$1: $2"; exit 1; }

# Debian packages: a command that shows that the package is there, and the package.
wanted=()
want() {
  # Debian has these folders on the path of root alone.
  (PATH="$PATH:/usr/sbin:/sbin" && command -v "$1" >/dev/null 2>&1) || wanted+=("$2")
}
want gcc gcc
want make make
[ -x .venv/bin/python ] || python3 -c 'import ensurepip' 2>/dev/null || wanted+=(python3-venv)
if [ "$purpose" != run ]; then
  want chromium chromium
  want chromedriver chromium-driver
  want fio fio
  want bpftrace bpftrace
  want strace strace
  # Tests that make histories of sources.
  want git git
  # What a printed report says.
  want pdftotext poppler-utils
  # Shells whose completion is tested.
  for tool in zsh fish; do want "$tool" "$tool"; done
  want perf linux-perf
  want valgrind valgrind
  # Kernels for guests, what boots them, and what loads their modules.
  want insmod kmod
  for tool in flex bison bc lz4 patch perl; do want "$tool" "$tool"; done
  want xz xz-utils
  want qemu-system-x86_64 qemu-system-x86
  [ -e /usr/include/libelf.h ] || wanted+=(libelf-dev)
  compgen -G '/usr/src/linux-source-*.tar.xz' >/dev/null || wanted+=(linux-source)
  want sparse sparse
  # Network namespaces for transfers.
  want ip iproute2
  # What the file system is mounted with, the server that it is tested against, and what it is compared with.
  want fusermount3 fuse3
  want ssh openssh-client
  [ -x /usr/sbin/sshd ] || wanted+=(openssh-server)
  want sshfs sshfs
  want mkfs.btrfs btrfs-progs
  # The server of a shared store.
  compgen -G '/usr/lib/postgresql/*/bin/postgres' >/dev/null || wanted+=(postgresql)
  # The DHCP lab, and peers of what lists devices.
  want dnsmasq dnsmasq-base
  want busybox busybox
  want tcpdump tcpdump
  want lsof lsof
  # What terminal sessions are recorded of, and compared with.
  for tool in tmux less; do want "$tool" "$tool"; done
  want vim vim
fi
if [ "$purpose" = bench ]; then
  # What transfers are compared with, beside scp.
  want iperf3 iperf3
  want socat socat
  want nc.openbsd netcat-openbsd
fi
if [ ${#wanted[@]} -gt 0 ]; then
  command -v apt-get >/dev/null || fail "missing: ${wanted[*]}" "install them with this system's package manager"
  [ "$(id -u)" = 0 ] || fail "missing: ${wanted[*]}" "run: sudo apt-get install ${wanted[*]}"
  say "installing ${wanted[*]}"
  export DEBIAN_FRONTEND=noninteractive
  if [[ " ${wanted[*]} " == *" openssh-server "* ]]; then
    # Tests and benchmarks start an sshd of their own, which needs the package's user and libraries; its service is to start neither now nor at the
    # next boot. The service, the socket and the init script all heed this file, which is there before them however this script ends.
    mkdir -p /etc/ssh
    touch /etc/ssh/sshd_not_to_be_run
    say "sshd comes without its service: to run that, remove /etc/ssh/sshd_not_to_be_run and enable ssh.service"
  fi
  if [[ " ${wanted[*]} " == *" postgresql "* ]]; then
    # Tests start a server of their own in a folder of their own: the package is to make and start none.
    mkdir -p /etc/postgresql-common/createcluster.d
    echo 'create_main_cluster = false' > /etc/postgresql-common/createcluster.d/oscope.conf
    say "PostgreSQL comes without a database cluster: pg_createcluster makes one"
  fi
  apt-get update -qq || fail "apt-get update failed" "check the package sources"
  apt-get install -y -qq --no-install-recommends "${wanted[@]}" >/dev/null || fail "apt-get install failed" "run it by hand: apt-get install ${wanted[*]}"
  if [[ " ${wanted[*]} " == *" openssh-server "* ]] && command -v systemctl >/dev/null; then
    for unit in ssh.service ssh.socket; do
      [ ! -e "/lib/systemd/system/$unit" ] || systemctl disable --quiet "$unit" || fail "$unit stays enabled" "run: systemctl disable $unit"
    done
  fi
fi
needed=$(sed -n 's/^rust-version = "\(.*\)"/\1/p' Cargo.toml)
command -v cargo >/dev/null || fail "cargo is missing" "install Rust $needed or later, with rustup or from the distribution"
found=$(cargo --version | cut -d' ' -f2)
[ "$(printf '%s\n' "$needed" "$found" | sort -V | head -n 1)" = "$needed" ] ||
  fail "cargo $found is too old" "install Rust $needed or later, with rustup or from a later distribution"

[ -x .venv/bin/python ] || { say "making .venv"; python3 -m venv .venv; }
stamp=.venv/.requirements.sha256
if ! sha256sum --check --status "$stamp" 2>/dev/null; then
  say "installing the locked Python packages"
  .venv/bin/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements.lock
  sha256sum requirements.lock > "$stamp"
fi
log=.venv/.build.log
say "building the programs: some minutes the first time"
PATH="$PWD/.venv/bin:$PATH" VIRTUAL_ENV="$PWD/.venv" maturin develop --release --quiet >"$log" 2>&1 ||
  { cat "$log" >&2; fail "the programs do not build" "see above"; }
.venv/bin/oscope-probe describe >/dev/null || fail "the probe does not start" "run .venv/bin/oscope-probe describe"
.venv/bin/oscope-fs operations >/dev/null || fail "the file system does not start" "run .venv/bin/oscope-fs operations"
if [ "$purpose" = bench ] && ! PATH="$PATH:$PWD/.venv/bin" command -v hyperfine >/dev/null; then
  # What oscope bench is compared with; later versions need a later Rust.
  say "building hyperfine"
  cargo install hyperfine --locked --version 1.20.0 --root .venv --quiet >"$log" 2>&1 || { cat "$log" >&2; fail "hyperfine does not build" "see above"; }
fi
if [ "$purpose" = test ]; then
  say "building the Rust tests"
  .venv/bin/python tools/rust_tests.py --build >"$log" 2>&1 || { cat "$log" >&2; fail "the Rust tests do not build" "see above"; }
  say "building the kernels of the tests' guests, where they are not built: some minutes each"
  .venv/bin/python tests/kernels.py || say "the tests that need these kernels will fail"
fi
say "ready: .venv/bin/oscope"
