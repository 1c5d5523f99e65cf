inherits h800
name h20 # NVIDIA H20
cube_cores 78           # published: multiprocessors
vector_cores 78         # published: multiprocessors
clock_mhz 1850          # fitted: to the peak of half precision
cube_flop_per_cycle 1024 # published: 148 Tflop/s f16, dense
cube_f32_ratio 0.3      # published: 44 Tflop/s
hbm_gib 96              # published: data sheet
hbm_gb_s 4000           # published: data sheet
core_gb_s 70            # guessed: as h800, in proportion
node_gb_s 450           # published: NVLink, 900 GB/s both ways
super_gb_s 450          # published: as node_gb_s
