#!/bin/sh
# Open MPI 4 or 5:   ./mpirun.sh HOSTFILE RANKS PROGRAM [ARGUMENTS...]
# HOSTFILE has a line "NAME slots=RANKS" for each machine; rank 0 is on the first.
set -eu
hosts=$1 ranks=$2
shift 2
WEIR_STORE=$(awk 'NF && $1 !~ /^#/ { print $1; exit }' "$hosts"):${WEIR_PORT:-29400}
WEIR_TOKEN=$(head -c 24 /dev/urandom | base64)
export WEIR_STORE WEIR_TOKEN WEIR_ENGINE=mpi
exec mpirun --hostfile "$hosts" -n "$ranks" -x WEIR_STORE -x WEIR_TOKEN -x WEIR_ENGINE "$@"
