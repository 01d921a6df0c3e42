#!/usr/bin/env bash
# Builds the package as a colcon workspace does and checks what lands in share/ and lib/. Needs no ROS installation.
# usage: scripts/colcon_build.sh [DIR]   DIR is kept for the next run; without it a temporary folder is used
set -euo pipefail
cd "$(dirname "$0")/.."
root=$PWD
work=${1:-$(mktemp -d)}
[ $# -ge 1 ] || trap 'rm -rf "$work"' EXIT
mkdir -p "$work/src"

# colcon in an environment of its own: the package is built and installed without its dependencies.
if [ ! -x "$work/venv/bin/colcon" ]; then
    "${PYTHON:-$( [ -x .venv/bin/python ] && echo .venv/bin/python || echo python3)}" -m venv "$work/venv"
    # colcon's Python task needs a setuptools that still has setup.py install (below 80).
    "$work/venv/bin/pip" install --disable-pip-version-check 'setuptools<80' wheel colcon-common-extensions \
        > "$work/pip.log" 2>&1 || { cat "$work/pip.log" >&2; exit 1; }
fi

rm -rf "$work/src/svfm_ros"
mkdir -p "$work/src/svfm_ros"
git ls-files -z --cached --others --exclude-standard | xargs -0 -I{} sh -c '[ ! -f "$1" ] || printf "%s\0" "$1"' _ {} |
    tar --null --files-from=- --create | tar --extract --directory "$work/src/svfm_ros"
cd "$work"
rm -rf build install log
PATH="$work/venv/bin:$PATH" colcon build --packages-select svfm_ros --event-handlers console_cohesion- console_stderr-

prefix=$work/install/svfm_ros
missing=0
expect() {
    [ "$1" "$prefix/$2" ] || { echo "colcon build: expected $2 in the install folder" >&2; missing=1; }
}
for folder in launch config maps; do
    while IFS= read -r file; do expect -f "share/svfm_ros/$file"; done < <(cd "$root" && git ls-files "$folder")
done
expect -f share/svfm_ros/package.xml
expect -f share/ament_index/resource_index/packages/svfm_ros
expect -f share/svfm_ros/package.bash
expect -x lib/svfm_ros/svfm
while IFS= read -r script; do expect -x "lib/svfm_ros/$(basename "$script")"; done < <(cd "$root" && git ls-files scripts/nodes)
while IFS= read -r module; do
    [ -n "$(find "$prefix/lib" -path "*/site-packages/$module" -print -quit)" ] ||
        { echo "colcon build: expected $module in the install folder" >&2; missing=1; }
done < <(cd "$root" && git ls-files svfm_ros)
[ "$missing" = 0 ] || exit 1

# What a user has after `source install/setup.bash`: the package on the path, and `svfm` or `ros2 run svfm_ros svfm`.
set +u
# shellcheck disable=SC1091
source "$work/install/local_setup.bash"
set -u
cd /
"$work/venv/bin/python" -c 'import svfm_ros, sys; sys.exit(not svfm_ros.__file__.startswith(sys.argv[1]))' "$prefix"
PATH="$work/venv/bin:$PATH" "$prefix/lib/svfm_ros/svfm" --version
echo "colcon build: share/ and lib/ hold what they should"
