#!/usr/bin/env bash
# Makes .venv with everything the package needs; does nothing when it is there already and nothing changed.
# usage: scripts/setup.sh [EXTRA ...]   extras of setup.py beside the ordinary ones, for example: bench
set -euo pipefail
cd "$(dirname "$0")/.."

say() { printf '%s\n' "$*" >&2; }

# The first Python of a version that the pinned wheels exist for.
find_python() {
    local candidate
    for candidate in ${PYTHON:-python3 python3.12 python3.11}; do
        if "$candidate" -c 'import sys; sys.exit(sys.version_info[:2] not in ((3, 11), (3, 12)))' 2>/dev/null; then
            command -v "$candidate"
            return
        fi
    done
    say "expected Python 3.11 or 3.12; type: ${admin}apt-get install python3 python3-venv"
    exit 1
}

# Installs Debian packages where we may, otherwise says what to type.
need_packages() {
    if [ "$(id -u)" = 0 ]; then
        apt-get install -y -qq "$@" >/dev/null 2>&1 || { apt-get update -qq && apt-get install -y -qq "$@" >/dev/null; }
    elif sudo -n true 2>/dev/null; then
        sudo -n apt-get install -y -qq "$@" >/dev/null 2>&1 || { sudo -n apt-get update -qq && sudo -n apt-get install -y -qq "$@" >/dev/null; }
    else
        say "a system package is missing; type: sudo apt-get install $*"
        exit 1
    fi
}

# Pip's own words matter only when it fails.
pip_install() {
    local log=.venv/pip.log
    .venv/bin/python -m pip install --quiet --constraint constraints.txt "$@" > "$log" 2>&1 && return
    cat "$log" >&2
    say "pip could not install what is needed; its own words are above"
    exit 1
}

admin=""
[ "$(id -u)" = 0 ] || admin="sudo "
python=$(find_python)
extras="dev"
# A ROS 2 installation that is sourced is used as it is; otherwise the wheels bring the same rclpy.
ros_sourced=no
if [ -n "${ROS_DISTRO:-}" ] && "$python" -c 'import rclpy' 2>/dev/null; then ros_sourced=yes; else extras="$extras,pypi"; fi
for extra in "$@"; do extras="$extras,$extra"; done

stamp=.venv/.svfm-$(printf '%s' "$extras" | tr ',' '-')
want=$(cat setup.py package.xml constraints.txt scripts/setup.sh | sha256sum; echo "$python $extras $ros_sourced $PWD")
[ -f "$stamp" ] && [ "$(cat "$stamp")" = "$want" ] && exit 0

case ",$extras," in *,bench,*)  # Open3D, which a benchmark compares with, needs it
    ldconfig -p 2>/dev/null | grep -q 'libusb-1\.0\.so\.0' || need_packages libusb-1.0-0 ;;
esac
"$python" -c 'import ensurepip' 2>/dev/null || need_packages "python$("$python" -c 'import sys; print("%d.%d" % sys.version_info[:2])')-venv"

say "setting up .venv with $("$python" --version) (a few minutes, once)"
venv_options=""
[ "$ros_sourced" = yes ] && venv_options="--system-site-packages"
[ -x .venv/bin/python ] || "$python" -m venv $venv_options .venv
pip_install pip setuptools wheel
pip_install --editable ".[$extras]"
printf '%s' "$want" > "$stamp"
