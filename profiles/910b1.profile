# Atlas A2: one 910B1, full mesh of eight over HCCS.
# A line is `key value # source`; keys and units are those of docs/model.md.
name 910b1 # Ascend 910B1 (Atlas A2)

cube_cores 24              # CANN 8.1.RC1 platform file of the SoC
vector_cores 48            # CANN 8.1.RC1 platform file of the SoC
shared_cores 0             # CANN 8.1.RC1 platform file: cube and vector cores are apart
host_cores 4               # CANN 8.1.RC1 platform file: AI CPUs
sdma_channels 8            # assumed: the number of engines is not public
clock_mhz 1850             # CANN 8.1.RC1 platform file of the SoC
cube_flop_per_cycle 8192   # 353.9 Tflop/s bf16 for 24 cores at 1.8 GHz
cube_f32_ratio 1           # assumed: not public, and slower where the cores are in doubt
cube_bf16_ratio 1          # as f16: both are given as the same peak
vector_flop_per_cycle 256  # assumed: 128 half-precision lanes, multiply and add
cube_efficiency 0.8        # assumed: 0.87 is the best published (arXiv 2509.25224)
vector_efficiency 0.6      # assumed
hbm_gib 64                 # CANN 8.1.RC1 platform file of the SoC
hbm_gb_s 1600              # Ascend/msmodeling: HBM of the 64 GB parts
hbm_efficiency 1.0         # published times of the operators below are memory bound at the full figure
core_gb_s 99               # fitted: operator time at 12+24 against 24+48 cores (docs/model.md)
l2_mib 192                 # CANN 8.1.RC1 platform file of the SoC
l2_gb_s 7000               # Ascend/msmodeling: L2, reads and writes mixed
sdma_gb_s 100              # assumed: the bandwidth of an engine is not public

launch_cube_us 5           # published for single-operator mode
launch_vector_us 2         # published for single-operator mode
launch_comm_us 10          # published for single-operator mode
launch_host_us 10          # assumed: as a collective, which the host starts as well
graph_launch_us 1          # assumed: published only as small once the graph is dispatched
graph_dispatch_us 700      # published: 0.6 to 0.8 ms for a whole graph
event_record_us 0.5        # assumed: not public
event_wait_us 0.5          # assumed: not public

stream_limit 1984          # hicann/runtime
event_limit 65536          # hicann/runtime
queue_depth 2048           # hicann/runtime

pair_dies 1                # one die in a package
pair_gb_s 196              # as node_gb_s: there is no pair
pair_us 0.5                # as node_us
node_dies 8                # an Atlas A2 server
node_gb_s 196              # HCCS, full mesh of eight, one way
node_us 0.5                # HCCS latency
super_dies 8               # there is no super node
super_gb_s 196             # as node_gb_s
super_us 0.5               # as node_us
net_gb_s 25                # RoCE, 200 Gbit/s a card
net_us 5                   # assumed

exchange_us 53             # fitted: MoE dispatch and combine of arXiv 2506.12708 (docs/model.md)
exchange_peer_us 0.5     # fitted: the same
push_efficiency 0.7        # measured 137 of 196 GB/s, remote writes (arXiv 2506.12708)
pull_efficiency 0.85       # measured 167 of 196 GB/s, remote reads (arXiv 2506.12708)
