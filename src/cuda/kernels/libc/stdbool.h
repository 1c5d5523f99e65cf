/* For the run-time compiler, which has bool by itself. */
