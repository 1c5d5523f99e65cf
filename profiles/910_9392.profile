inherits 910_9391
name 910_9392 # Ascend 910C, one die (Atlas A3)
