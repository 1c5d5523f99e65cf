# One NVIDIA H800 SXM: eight a server over NVLink, servers over InfiniBand.
inherits 910b1
name h800 # NVIDIA H800 SXM
cube_cores 132            # published: multiprocessors
vector_cores 132          # published: multiprocessors
shared_cores 1            # published: matrix and vector units share a multiprocessor
host_cores 1              # guessed: the host thread
sdma_channels 3           # guessed: copy engines
clock_mhz 1830            # published: boost clock that the peak is given for
cube_flop_per_cycle 4096  # published: 989 Tflop/s f16, dense
cube_f32_ratio 0.068      # published: 67 Tflop/s, without matrix units
cube_hf32_ratio 0.5       # published: tf32
cube_f64_ratio 0.001      # published: 1 Tflop/s
cube_i32_ratio 0.034      # guessed: half of f32
cube_i8_ratio 2           # published: 1979 Top/s
cube_f8_ratio 2           # published: 1979 Tflop/s
vector_flop_per_cycle 512 # published: 134 Tflop/s f16, without matrix units
vector_f64_ratio 0.008    # published: 1 Tflop/s
cube_efficiency 0.75      # guessed: what large products of cuBLAS reach under load
cube_fill_k 150           # guessed: as 910b1
mix_efficiency 0.667      # published: FlashMLA bound by computing, 660 Tflop/s
hbm_gib 80                # published: data sheet
hbm_gb_s 3350             # published: data sheet
hbm_efficiency 0.896      # published: FlashMLA bound by memory, 3000 GB/s
core_gb_s 40              # guessed: 84 multiprocessors fill the memory
l2_mib 50                 # published: data sheet
l2_gb_s 5500              # guessed
sdma_gb_s 50              # guessed
cube_head_us 2            # guessed
vector_head_us 1.5        # guessed
launch_cube_us 4.4        # measured: a launch on an H200
launch_vector_us 4.4      # measured: a launch on an H200
launch_comm_us 4.4        # measured: a launch on an H200
launch_host_us 10         # guessed
graph_launch_us 0.7       # measured: a node of a graph on an H200
graph_dispatch_us 7       # measured: launching a graph on an H200
node_gb_s 200             # published: NVLink, 400 GB/s both ways
node_us 1                 # guessed
node_mesh 0               # published: switched
super_gb_s 200            # published: as node_gb_s
super_us 1                # guessed
net_gb_s 50               # published: InfiniBand, 400 Gbit/s
net_us 5                  # guessed
exchange_us 3             # fitted: DeepEP's dispatch and combine at EP8 and EP256
dispatch_gb_s 242         # fitted: the same
combine_gb_s 494          # fitted: the same
exchange_share 0.07       # guessed: as 910b1
exchange_cores 20         # published: multiprocessors that DeepEP takes for a prefill
push_efficiency 0.8       # published: about 160 GB/s over NVLink, 40 over InfiniBand (DeepEP)
pull_efficiency 0.85      # guessed: as 910b1
