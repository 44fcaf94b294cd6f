#!/usr/bin/env bash
# Run once by Gradescope, as root on Ubuntu, when the autograder is uploaded.
set -euo pipefail
apt-get update -qq
apt-get install -y -qq bubblewrap
for version in 3.13 3.12 3.11; do
  if apt-get install -y -qq "python$version" "python$version-venv"; then
    python="python$version"
    break
  fi
done
cd /autograder/source
export PIP_EXTRA_INDEX_URL=https://download.pytorch.org/whl/cpu
"$python" workshop/environment/make_env.py
"$python" workshop/environment/make_env.py --grading
