"""The version of CANN whose functions libhccl has."""
__sys_version__ = "8.0.0"
