#!/usr/bin/env bash
# The configuration that envlab cluster setup runs on every host unless it is given another: a
# virtual environment in $ENVLAB_PATH/venv with envlab, at its pinned versions, from the snapshot
# $ENVLAB_SNAPSHOT of the working tree. $ENVLAB_EXTRAS names what to install beside it.
set -euo pipefail

export ENVLAB_VENV=$ENVLAB_PATH/venv
"$ENVLAB_SNAPSHOT/envlab.sh" setup
printf '*\n' >"$ENVLAB_VENV/.gitignore" # where $ENVLAB_PATH is in a working tree
"$ENVLAB_VENV/bin/python" --version
echo DONE
