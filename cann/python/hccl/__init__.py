"""What MindSpore asks for before it uses libhccl: that the package is there, and its version."""
