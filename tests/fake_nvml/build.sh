#!/bin/sh
# Build the stand-in for NVIDIA's library.       usage: build.sh PATH
set -eu
mkdir -p "$(dirname "$1")"
exec cc -std=c11 -D_GNU_SOURCE -O2 -Wall -Wextra -shared -fPIC -Wl,-soname,libnvidia-ml.so.1 -o "$1" "$(dirname "$0")/fake_nvml.c"
