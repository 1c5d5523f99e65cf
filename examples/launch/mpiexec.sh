#!/bin/sh
# MPICH 5:   ./mpiexec.sh HOSTFILE RANKS PROGRAM [ARGUMENTS...]
# HOSTFILE has a line "NAME:RANKS" for each machine; rank 0 is on the first.
set -eu
hosts=$1 ranks=$2
shift 2
MASTER_ADDR=$(awk -F: 'NF && $1 !~ /^#/ { print $1; exit }' "$hosts")
WEIR_STORE=$MASTER_ADDR:${WEIR_PORT:-29400}
WEIR_TOKEN=$(head -c 24 /dev/urandom | base64)
export WEIR_STORE WEIR_TOKEN WEIR_ENGINE=mpi
# torch.distributed (init_method env://) has names of its own.
export MASTER_ADDR MASTER_PORT=${MASTER_PORT:-29500} WORLD_SIZE="$ranks"
names='RANK=$PMI_RANK LOCAL_RANK=${MPI_LOCALRANKID:-0} exec "$@"'
exec mpiexec.hydra -f "$hosts" -n "$ranks" -genvlist WEIR_STORE,WEIR_TOKEN,WEIR_ENGINE,MASTER_ADDR,MASTER_PORT,WORLD_SIZE \
    sh -c "$names" sh "$@"
