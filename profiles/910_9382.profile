inherits 910_9391
name 910_9382 # Ascend 910C, one die (Atlas A3)
clock_mhz 1800  # published: CANN 8.1.RC1 platform file of the SoC
