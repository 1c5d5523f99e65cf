#!/bin/sh
# MPICH 5:   ./mpiexec.sh HOSTFILE RANKS PROGRAM [ARGUMENTS...]
# HOSTFILE has a line "NAME:RANKS" for each machine; rank 0 is on the first.
set -eu
hosts=$1 ranks=$2
shift 2
WEIR_STORE=$(awk -F: 'NF && $1 !~ /^#/ { print $1; exit }' "$hosts"):${WEIR_PORT:-29400}
WEIR_TOKEN=$(head -c 24 /dev/urandom | base64)
export WEIR_STORE WEIR_TOKEN WEIR_ENGINE=mpi
exec mpiexec.hydra -f "$hosts" -n "$ranks" -genvlist WEIR_STORE,WEIR_TOKEN,WEIR_ENGINE "$@"
