#!/usr/bin/env bash
# Tries a wheel for musl in a container with Alpine: try_wheel_alpine.sh PYTHON WHEEL, PYTHON being 3.11 or 3.14t, say.
# Needs docker. The image is the one that such wheels are built in; it has a Python of each kind.
set -euo pipefail

version=${1%t}
tag=cp${version/./}
abi=$tag${1#"$version"}
docker run --rm --volume "$PWD:/checkout:ro" --workdir /checkout "quay.io/pypa/musllinux_1_2_$(uname -m)" \
    sh -c 'manylinux-interpreters ensure "$1" && PATH=/opt/python/$1/bin:$PATH exec .github/scripts/try_wheel.sh "$2"' \
    sh "$tag-$abi" "$2"
