inherits 910b1
name 910b4 # Ascend 910B4 (Atlas A2)
cube_cores 20   # published: CANN 8.1.RC1 platform file of the SoC
vector_cores 40 # published: CANN 8.1.RC1 platform file of the SoC
clock_mhz 1500  # published: CANN 8.1.RC1 platform file of the SoC
hbm_gib 32      # published: CANN 8.1.RC1 platform file of the SoC
hbm_gb_s 800    # published: HBM of the 32 GB parts
core_gb_s 41    # fitted: as 910b1, at half the bandwidth
l2_mib 96       # published: CANN 8.1.RC1 platform file of the SoC
