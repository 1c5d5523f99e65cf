inherits h800
name h200 # NVIDIA H200 SXM
cube_f64_ratio 0.068    # published: 67 Tflop/s
vector_f64_ratio 0.25   # published: 34 Tflop/s
hbm_gib 141             # published: data sheet
hbm_gb_s 4800           # published: data sheet
core_gb_s 57            # guessed: as h800, in proportion
node_gb_s 450           # published: NVLink, 900 GB/s both ways
super_gb_s 450          # published: as node_gb_s
