inherits 910b1
name 910b2 # Ascend 910B2 (Atlas A2)
clock_mhz 1800 # published: CANN 8.1.RC1 platform file of the SoC
