inherits 910_9391
name 910_9372 # Ascend 910C, one die (Atlas A3)
cube_cores 20   # published: CANN 8.1.RC1 platform file of the SoC
vector_cores 40 # published: CANN 8.1.RC1 platform file of the SoC
clock_mhz 1800  # published: CANN 8.1.RC1 platform file of the SoC
