# Atlas A2: one 910B1, full mesh of eight over HCCS.
# A line is `key value # source`; keys and units are those of src/sim/profile.h. A source begins with
# published, measured, fitted or guessed. What figures are fitted to is in docs/validation.md.
name 910b1 # Ascend 910B1 (Atlas A2)

cube_cores 24              # published: CANN 8.1.RC1 platform file of the SoC
vector_cores 48            # published: CANN 8.1.RC1 platform file of the SoC
shared_cores 0             # published: CANN 8.1.RC1 platform file: cube and vector cores are apart
host_cores 4               # published: CANN 8.1.RC1 platform file: AI CPUs
sdma_channels 8            # guessed: the number of engines is not public
clock_mhz 1850             # published: CANN 8.1.RC1 platform file of the SoC
cube_flop_per_cycle 8192   # published: 353.9 Tflop/s bf16 for 24 cores at 1.8 GHz
cube_f32_ratio 0.33        # published: about a third of the f16 peak
cube_bf16_ratio 1          # published: both are given as the same peak
cube_hf32_ratio 0.5        # guessed: between f32 and f16; its peak is not public
cube_f64_ratio 0.004       # guessed: the cube has no f64, vector cores emulate it
cube_i32_ratio 0.016       # guessed: the cube has no i32, vector cores multiply
cube_i8_ratio 2            # published: 752 Top/s int8 beside 376 Tflop/s a die, arXiv 2506.12708
cube_f8_ratio 1            # guessed: no f8, computed in half precision
vector_flop_per_cycle 256  # guessed: 128 half-precision lanes, multiply and add
vector_f32_ratio 0.5       # published: lanes are of 256 bytes, so half as many
vector_f64_ratio 0.016     # guessed: emulated
cube_efficiency 0.83       # fitted: int8 products reach 0.774 to 0.827, arXiv 2506.12708
cube_fill_k 150            # fitted: the same range
mix_efficiency 0.654       # published: MLA bound by computing, arXiv 2506.12708
vector_efficiency 0.6      # guessed
cube_head_us 3             # fitted: MatMul and FlashAttention at 12+24 against 24+48 cores
vector_head_us 4.5         # fitted: TPOT of DeepSeek-R1 at 8 sequences a card, arXiv 2506.12708
hbm_gib 64                 # published: CANN 8.1.RC1 platform file of the SoC
hbm_gb_s 1600              # published: HBM of the 64 GB parts
hbm_efficiency 0.841       # published: MLA bound by memory, arXiv 2506.12708
core_gb_s 83               # fitted: MatMul and FlashAttention at 12+24 against 24+48 cores
l2_mib 192                 # published: CANN 8.1.RC1 platform file of the SoC
l2_gb_s 7000               # published: L2, reads and writes mixed
sdma_gb_s 100              # guessed: the bandwidth of an engine is not public

launch_cube_us 5           # published: single-operator mode
launch_vector_us 2         # published: single-operator mode
launch_comm_us 10          # published: single-operator mode
launch_host_us 10          # guessed: as a collective, which the host starts as well
graph_launch_us 1          # guessed: published only as small once the graph is dispatched
graph_dispatch_us 700      # published: 0.6 to 0.8 ms for a whole graph
graph_stream_us 0          # guessed: not public, part of the whole
event_record_us 0.5        # guessed: not public
event_wait_us 0.5          # guessed: not public

stream_limit 1984          # published: streams of a device
event_limit 65536          # published: events of a device
queue_depth 2048           # published: entries of a stream's queue

pair_dies 1                # published: one die in a package
pair_gb_s 196              # published: as node_gb_s, there is no pair
pair_us 0.5                # published: as node_us
node_dies 8                # published: an Atlas A2 server
node_gb_s 196              # published: HCCS, seven links of 28 GB/s, one way
node_us 0.5                # published: HCCS latency
node_mesh 1                # published: full mesh of eight
super_dies 8               # published: there is no super node
super_gb_s 196             # published: as node_gb_s
super_us 0.5               # published: as node_us
net_gb_s 25                # published: RoCE, 200 Gbit/s a card
net_us 5                   # guessed

exchange_us 8              # fitted: MoE dispatch and combine of arXiv 2506.12708
exchange_flight 24         # fitted: the same
dispatch_gb_s 124          # fitted: the same
combine_gb_s 475           # fitted: the same
exchange_share 0.07        # published: 48 cores move 9 MB 2.5 times as fast as 2, arXiv 2508.02520
exchange_cores 0           # published: SDMA moves what a prefill exchanges, arXiv 2506.12708
push_efficiency 0.7        # published: measured 137 of 196 GB/s, remote writes, arXiv 2506.12708
pull_efficiency 0.85       # published: measured 167 of 196 GB/s, remote reads, arXiv 2506.12708
error 0.15                 # fitted: the worst of the figures in docs/validation.md
