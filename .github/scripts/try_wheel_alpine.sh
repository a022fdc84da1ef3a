#!/usr/bin/env bash
# Tests a wheel for musl in an Alpine container: try_wheel_alpine.sh PYTHON WHEEL, where PYTHON is a
# version such as 3.11 or 3.14t. Needs docker. The image is the one for building such wheels, which
# provides every Python.
set -euo pipefail

version=${1%t}
tag=cp${version/./}
abi=$tag${1#"$version"}
docker run --rm --volume "$PWD:/checkout:ro" --workdir /checkout "quay.io/pypa/musllinux_1_2_$(uname -m)" \
    sh -c 'manylinux-interpreters ensure "$1" && PATH=/opt/python/$1/bin:$PATH exec .github/scripts/try_wheel.sh "$2"' \
    sh "$tag-$abi" "$2"
