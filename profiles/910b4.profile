inherits 910b1
name 910b4 # Ascend 910B4 (Atlas A2)
cube_cores 20   # CANN 8.1.RC1 platform file of the SoC
vector_cores 40 # CANN 8.1.RC1 platform file of the SoC
clock_mhz 1500  # CANN 8.1.RC1 platform file of the SoC
hbm_gib 32      # CANN 8.1.RC1 platform file of the SoC
hbm_gb_s 800    # Ascend/msmodeling: HBM of the 32 GB parts
core_gb_s 49    # as 910b1, at half the bandwidth
l2_mib 96       # CANN 8.1.RC1 platform file of the SoC
