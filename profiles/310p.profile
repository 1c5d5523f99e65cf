# Atlas 300I Pro and Duo: one Ascend 310P with LPDDR4X.
inherits 910b1
name 310p # Ascend 310P (Atlas 300I)
cube_cores 8            # published: AI cores
vector_cores 8          # published: one vector unit to each AI core, and as many apart
clock_mhz 1080          # fitted: to the peak of half precision
cube_flop_per_cycle 8192 # published: 70 Tflop/s f16 for 8 cores
cube_i8_ratio 2         # published: 140 Top/s int8
hbm_gib 24              # published: data sheet of the Atlas 300I Pro
hbm_gb_s 204.8          # published: LPDDR4X
core_gb_s 30            # guessed: 7 cores fill the memory
l2_mib 16               # guessed
l2_gb_s 1000            # guessed
node_gb_s 16            # guessed: PCIe 4.0 x16 shared, no links between cards
node_us 10              # guessed
node_mesh 0             # guessed: through the host
super_gb_s 16           # guessed: as node_gb_s
super_us 10             # guessed
net_gb_s 3              # guessed: through the host
net_us 20               # guessed: through two hosts
