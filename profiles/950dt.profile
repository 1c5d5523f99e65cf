# Announced in September 2025 for 2026: what the keynote says, the rest as a 910C.
inherits 910_9391
name 950dt # Ascend 950DT, announced
cube_cores 32            # guessed
vector_cores 64          # guessed
clock_mhz 1850           # guessed: as 910_9391
cube_flop_per_cycle 8447 # fitted: half of the announced f8 peak
cube_f8_ratio 2          # published: announced, 1 Pflop/s f8
hbm_gib 144              # published: announced
hbm_gb_s 4000            # published: announced
core_gb_s 208             # guessed: as 910_9391, in proportion
pair_dies 1              # guessed
node_dies 8              # guessed
node_gb_s 1000           # published: announced, 2 TB/s both ways
super_dies 8192          # published: announced, Atlas 950 SuperPoD
super_gb_s 1000          # published: announced, 2 TB/s both ways
error 0.3                # guessed: nothing is measured
