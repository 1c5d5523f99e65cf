# Atlas A3: one die of a 910C. Two dies a package, sixteen a server, 768 a super node.
inherits 910b1
name 910_9391 # Ascend 910C, one die (Atlas A3)
pair_dies 2     # published: arXiv 2506.12708: two dies in a package
pair_gb_s 270   # published: arXiv 2506.12708: between the dies, one way
pair_us 0.5     # guessed: below that of a server
node_dies 16    # published: arXiv 2506.12708: eight packages a server
node_gb_s 196   # published: arXiv 2506.12708: UB links of a die, one way
node_mesh 0     # published: arXiv 2506.12708: switched
node_us 1.2     # published: arXiv 2506.12708: measured, same server
super_dies 768  # published: arXiv 2506.12708: CloudMatrix384
super_gb_s 196  # published: arXiv 2506.12708: UB links of a die, one way
super_us 1.9    # published: arXiv 2506.12708: measured, other server
net_gb_s 25     # published: arXiv 2506.12708: RDMA, 200 Gbit/s a die
