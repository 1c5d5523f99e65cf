inherits 910_9391
name 910_9362 # Ascend 910C, one die (Atlas A3)
cube_cores 20   # published: CANN 8.1.RC1 platform file of the SoC
vector_cores 40 # published: CANN 8.1.RC1 platform file of the SoC
clock_mhz 1500  # published: CANN 8.1.RC1 platform file of the SoC
hbm_gib 32      # published: CANN 8.1.RC1 platform file of the SoC
hbm_gb_s 800    # published: HBM of the 32 GB parts
core_gb_s 41    # fitted: as 910_9391, at half the bandwidth
l2_mib 168      # published: CANN 8.1.RC1 platform file of the SoC
