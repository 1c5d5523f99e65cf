inherits 910b1
name 910b3 # Ascend 910B3 (Atlas A2)
cube_cores 20   # published: CANN 8.1.RC1 platform file of the SoC
vector_cores 40 # published: CANN 8.1.RC1 platform file of the SoC
clock_mhz 1800  # published: CANN 8.1.RC1 platform file of the SoC
