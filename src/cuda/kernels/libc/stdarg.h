/* For the run-time compiler, whose sources take no variable arguments. */
