/* For the run-time compiler, whose texts take no variable arguments. */
